"""Sessions in a JVM of this process, which stays warm between tasks and dies with the process."""

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from stem.contracts.engine import Attempt
from stem.pipeline.jobs import orphans
from stem.pipeline.jobs.interrupts import Interrupts
from stem.pipeline.jobs.progress import Progress, TaskCounts
from stem.pipeline.spark.session import session

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOOK_SECONDS = 0.05
QUIET = 2  # checks in a row without activity, before cancelled work counts as ended
GROUP, DESCRIPTION, ON_CANCEL = "spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"


class Classic:
    """Runs attempts in sessions of one JVM."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        self._conf = conf
        self._register = orphans.TaskRegister()
        self._spark: SparkSession | None = None
        self._place: str | None = None  # for files that Spark writes

    def run(self, call: Callable[["SparkSession"], Any], attempt: Attempt, tag: str) -> Any:
        self._register.end_earlier(attempt.key)
        with self._register.entered(attempt.key), ExitStack() as ends:
            with Interrupts(attempt) as interrupts:
                spark = self._warm().newSession()
                jobs = LocalJobs(spark, tag)
                ends.callback(jobs.end)
                attempt.note(spark=jobs.facts())
                with jobs.tagged(attempt.name), jobs.followed(interrupts):
                    value = call(spark)
                interrupts.finish()
                return value

    def reap(self, key: str) -> None:
        self._register.end_earlier(key)

    def close(self) -> None:
        if self._spark is not None and is_alive(self._spark):
            self._spark.stop()

    def _warm(self) -> "SparkSession":
        if self._spark is not None and not is_alive(self._spark):
            _forget_dead()
            self._spark = None
        if self._spark is None:
            with orphans.killed_with_this_process():
                self._spark = session("stem", conf=self._wanted())
            logging.getLogger("py4j").setLevel(logging.WARNING)  # it logs every thread that ends
        return self._spark

    def _wanted(self) -> dict[str, str]:
        """Defaults of the engine, overridden by the settings."""
        own = {"spark.ui.enabled": "true", "spark.ui.port": "0"}
        if not {"spark.local.dir", "spark.driver.extraJavaOptions"} & self._conf.keys():
            place = self._place = self._place or str(orphans.self_removing_folder())
            own |= {"spark.local.dir": place, "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={place}"}
        return own | dict(self._conf)


class LocalJobs:
    """The Spark jobs of one attempt. The context belongs to this process, so everything that runs there is the attempt's."""

    def __init__(self, spark: "SparkSession", tag: str) -> None:
        self._spark = spark
        self._context: SparkContext = spark.sparkContext
        self._tag = tag
        self._before = set(self._context.statusTracker().getJobIdsForGroup(tag))  # of an attempt that was requeued
        self._progress = Progress()

    def facts(self) -> dict[str, Any]:
        return {"applicationId": self._context.applicationId, "uiUrl": self._context.uiWebUrl, "tag": self._tag}

    @contextmanager
    def tagged(self, name: str) -> Iterator[None]:
        self._context.addJobTag(self._tag)
        self._context.setJobGroup(self._tag, name, True)
        try:
            yield
        finally:
            with suppress(Exception):  # the JVM may be gone
                self._context.clearJobTags()
                for property in (GROUP, DESCRIPTION, ON_CANCEL):
                    self._context.setLocalProperty(property, None)  # type: ignore[arg-type]

    @contextmanager
    def followed(self, interrupts: Interrupts) -> Iterator[None]:
        """Delay interrupts until a call of the JVM has returned: an exception within a call would leave its answer on the
        connection, for the next call to read."""
        client: Any = self._context._gateway._gateway_client  # type: ignore[union-attr]
        plain = client.send_command

        def send_command(*words: Any, **options: Any) -> Any:
            answer = plain(*words, **options)
            interrupts.pass_on()
            return answer

        client.send_command = send_command
        try:
            interrupts.follow(self)
            yield
        finally:
            client.send_command = plain

    def is_within(self, frame: FrameType | None, /) -> bool:
        while frame is not None:
            if str(frame.f_globals.get("__name__", "")).startswith("py4j"):
                return True
            frame = frame.f_back
        return False

    def report(self) -> tuple[float | None, str]:
        tracker = self._context.statusTracker()
        try:
            found = [tracker.getJobInfo(job) for job in self._ids()]
            stages = [[tracker.getStageInfo(stage) for stage in job.stageIds] for job in found if job is not None]
        except Exception:  # noqa: BLE001 - the JVM may be gone, which the handler will hear of
            return None, "Spark does not answer"
        seen = [
            TaskCounts(
                sum(stage.numCompletedTasks for stage in job if stage), sum(stage.numTasks for stage in job if stage)
            )
            for job in stages
        ]
        return self._progress.of(seen)

    def _ids(self) -> list[int]:
        return sorted({*self._context.statusTracker().getJobIdsForGroup(self._tag)} - self._before)

    def cancel(self) -> None:
        with suppress(Exception):  # the JVM may be gone, and its jobs with it
            self._context.cancelJobsWithTag(self._tag)
            self._context.cancelAllJobs()  # threads of the handler may have jobs without a tag
            for query in self._spark.streams.active:
                query.stop()

    def end(self) -> None:
        """End everything of the attempt, including the Python of cancelled tasks, before returning."""
        quiet = 0 if self._running() else QUIET
        while quiet < QUIET:
            self.cancel()
            self._kill_python()
            time.sleep(LOOK_SECONDS)
            quiet = 0 if self._running() else quiet + 1
        with suppress(Exception):
            self._spark.catalog.clearCache()

    def _running(self) -> int:
        """The number of jobs, and of tasks on all executors; tasks of a cancelled job count until their Python has ended."""
        try:
            # From the schedulers, because the status store lags behind by seconds.
            context: Any = self._context._jsc.sc()
            return int(context.dagScheduler().activeJobs().size()) + _sum(
                context.taskScheduler().runningTasksByExecutors().valuesIterator()
            )
        except Exception:  # noqa: BLE001 - it may have been stopped, or died
            if is_alive(self._spark):
                return 1  # busy
            if not _jvm_answers():
                orphans.end(orphans.own_mark())
            return 0

    def _kill_python(self) -> None:
        """Kill Python workers on this machine; Spark would take seconds. On other machines, wait for Spark."""
        if str(self._context.master).startswith("local"):
            for pid in orphans.python_workers(orphans.own_mark()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _sum(numbers: Any) -> int:
    """The sum of a Scala iterator."""
    total = 0
    while numbers.hasNext():
        total += numbers.next()
    return total


def is_alive(spark: "SparkSession") -> bool:
    """Whether the session can be used: a handler may have stopped it, or the JVM may be gone."""
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except Exception:  # noqa: BLE001 - it does not answer, for whatever reason
        return False


def _jvm_answers() -> bool:
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    try:
        return gateway is not None and gateway.jvm.System.nanoTime() != 0
    except Exception:  # noqa: BLE001 - as above
        return False


def _forget_dead() -> None:
    """Make PySpark forget a dead JVM, which it would use again. A living one can get another context."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if _jvm_answers():
        return
    gateway: Any = SparkContext._gateway
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()
        gateway.proc.kill()
        gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
