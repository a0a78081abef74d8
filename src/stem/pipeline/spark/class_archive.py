"""Let Spark's JVM start faster: an archive of loaded classes saves about two seconds per session.

One training run writes the archive, in a process of its own, for the sessions that follow.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from stem.pipeline.spark.java import Java, cache_folder

_TRAINING = "stem.pipeline.spark.training"
_AOT_SINCE = 25  # the version of Java whose archives also hold compiled code
_TRAINING_SECONDS = 300
_UNUSED_SECONDS = 30 * 86400.0
_SILENT = "-Xlog:disable"  # the JVM comments on archives that it cannot use

# Spark runs very many methods about ten thousand times each, and the optimising compiler would spend a core of a small
# machine on them at every start. With bounds a hundred times higher (ten for loops), hot code still reaches it within moments.
_COMPILE_LATER = (
    "-XX:Tier4InvocationThreshold=500000",
    "-XX:Tier4MinInvocationThreshold=60000",
    "-XX:Tier4CompileThreshold=1500000",
    "-XX:Tier4BackEdgeThreshold=400000",
)


def path(java: Java) -> Path:
    return java.home / ("spark.aot" if java.major >= _AOT_SINCE else "spark.jsa")


def is_supported(java: Java) -> bool:
    """Before Java 25 an archive extends the one that the Java was built with, which some lack."""
    return java.major >= _AOT_SINCE or (java.real_home / "lib/server/classes.jsa").is_file()


def is_off() -> bool:
    return os.environ.get("STEM_SPARK_ARCHIVE") == "off"


def is_wanted(java: Java) -> bool:
    """Whether to write one. STEM_SPARK_ARCHIVE=use takes one that exists and writes none."""
    may_write = os.environ.get("STEM_SPARK_ARCHIVE") not in ("off", "use")
    return may_write and is_supported(java) and not path(java).is_file()


def start_options(java: Java) -> list[str]:
    """JVM options for a fast start. The JVM ignores an archive that is stale or broken."""
    archive = path(java)
    if is_off() or not archive.is_file():
        return [*_COMPILE_LATER]
    with contextlib.suppress(OSError):
        os.utime(archive)  # mark it as used
    option = "AOTCache" if java.major >= _AOT_SINCE else "SharedArchiveFile"
    return [*_COMPILE_LATER, f"-XX:{option}={archive}", _SILENT]


def training_options(java: Java, output: Path) -> list[str]:
    """JVM options that write an archive when the JVM ends."""
    option = "AOTCacheOutput" if java.major >= _AOT_SINCE else "ArchiveClassesAtExit"
    return [f"-XX:{option}={output}", _SILENT]


def write_in_background() -> None:
    """Write the archive in a process of its own, at the lowest priority, for the next sessions."""
    subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-m", _TRAINING],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: os.nice(19),
    )


def write(java: Java) -> bool:
    """Run a small job whose JVM records the classes it loads. False if the archive exists or is being written."""
    archive = path(java)
    with _lock(java) as is_ours:
        if not is_ours or archive.is_file() or not is_supported(java):
            return False
        _remove_unused()
        output = archive.with_name(f"{archive.name}.{os.getpid()}")
        try:
            subprocess.run(  # noqa: S603 - our own module
                [sys.executable, "-m", _TRAINING, str(output)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TRAINING_SECONDS,
                check=False,
            )
            if not output.is_file():
                return False
            output.rename(archive)
            return True
        except subprocess.TimeoutExpired:
            return False
        finally:
            for left in java.home.glob(f"{output.name}*"):
                left.unlink(missing_ok=True)


@contextlib.contextmanager
def _lock(java: Java) -> Iterator[bool]:
    """False if another process writes the archive."""
    with open(java.home / "archive.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _remove_unused() -> None:
    """Remove the archives of environments that are gone; each takes about 200 MB."""
    horizon = time.time() - _UNUSED_SECONDS
    for archive in cache_folder().glob("java-*/spark.*"):
        with contextlib.suppress(OSError):
            if archive.stat().st_mtime < horizon:
                shutil.rmtree(archive.parent)
