"""The Python that an embedded Spark starts: this one, with the installed PySpark and its bytecode.

Spark puts an archive of PySpark's sources before everything else that Python imports from. Each of its Python processes would
compile them anew, for half a second and more.
"""

import hashlib
import os
import shlex
import sys
from pathlib import Path

_SHIM = """#!/bin/sh
set -f
IFS=:
kept=
for path in $PYTHONPATH; do
  case $path in
    {spark}/*) ;;
    *) kept=$kept${{kept:+:}}$path ;;
  esac
done
export PYTHONPATH="$kept"
exec {python} "$@"
"""


def command(folder: Path) -> str:
    """What PYSPARK_PYTHON shall be: a shim in `folder`; or Python itself, where the folder cannot be written or the user
    has chosen a Spark of his own."""
    if "SPARK_HOME" in os.environ:
        return sys.executable
    try:
        return str(_shim(folder))
    except OSError:
        return sys.executable


def on_path(command: str) -> tuple[str, str]:
    """A command as Spark takes it, and the PATH to go with it. Spark looks for data sources only if a shell finds the command,
    and does not quote it: one with a space in its path goes by its name."""
    path = os.environ.get("PATH", os.defpath)
    if shlex.quote(command) == command:
        return command, path
    return os.path.basename(command), f"{os.path.dirname(command)}{os.pathsep}{path}"


def _shim(folder: Path) -> Path:
    """Named for what is in it, since environments may share the folder."""
    import pyspark

    spark = os.path.dirname(os.path.realpath(pyspark.__file__))
    text = _SHIM.format(spark=shlex.quote(spark), python=shlex.quote(sys.executable))
    shim = folder / f"python-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    if not os.access(shim, os.X_OK):
        fresh = shim.with_name(f"{shim.name}.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.rename(shim)  # whole or not at all, also for others who look now
    return shim
