"""Choose the Python that an embedded Spark starts: this one, with the installed PySpark and its bytecode.

Spark puts a zip of PySpark's sources first on PYTHONPATH. Without the shim each Python process compiles them again, which
takes half a second or more; a first `format("stem")` starts several.
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
    """The value for PYSPARK_PYTHON: a shim in `folder`, or Python itself if the folder cannot be written or SPARK_HOME names
    another Spark."""
    if "SPARK_HOME" in os.environ:
        return sys.executable
    try:
        return str(_shim(folder))
    except OSError:
        return sys.executable


def on_path(command: str) -> tuple[str, str]:
    """The command as Spark takes it, and the PATH it needs. Spark does not quote the command, so one with a space in its path
    goes by its name."""
    path = os.environ.get("PATH", os.defpath)
    if shlex.quote(command) == command:
        return command, path
    return os.path.basename(command), f"{os.path.dirname(command)}{os.pathsep}{path}"


def _shim(folder: Path) -> Path:
    """The name has a hash of the content, because environments may share the folder."""
    import pyspark

    spark = os.path.dirname(os.path.realpath(pyspark.__file__))
    text = _SHIM.format(spark=shlex.quote(spark), python=shlex.quote(sys.executable))
    shim = folder / f"python-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    if not os.access(shim, os.X_OK):
        fresh = shim.with_name(f"{shim.name}.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.rename(shim)  # atomic: another process may look now
    return shim
