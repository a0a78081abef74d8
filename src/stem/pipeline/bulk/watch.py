"""Watch a bulk from the driver: report its progress, and cancel its Spark jobs when its task is revoked."""

from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Self

from stem.client.run.context import TaskContext
from stem.core.errors import SoftTimeLimitExceeded, StemError, TaskRevoked
from stem.pipeline.bulk.chunks import ResultFile, ResultFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS = 1.0

OnProgress = Callable[[int, int], object]  # items that have ended, and how many of them failed


class BulkWatch:
    """While entered, Spark jobs of this thread have the bulk's tag, and are cancelled if the task is revoked."""

    def __init__(
        self,
        spark: "SparkSession",
        folder: ResultFolder,
        tag: str,
        context: TaskContext | None,
        total: int | None,
        tell: OnProgress,
    ) -> None:
        self._spark, self._folder, self._tag = spark, folder, tag
        self._context, self._total, self._tell = context, total, tell
        self._stopped = Event()
        self._thread = Thread(target=self._watch, name="bulk-watch", daemon=True)
        self.revoked: TaskRevoked | None = None

    def __enter__(self) -> Self:
        _tagger(self._spark).add(self._tag)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self._stopped.set()
        if error is not None:
            _tagger(self._spark).cancel(self._tag)  # an interrupt is raised here; executors must stop as well
        _tagger(self._spark).remove(self._tag)
        self._thread.join()
        if self.revoked is not None and isinstance(error, Exception) and not isinstance(error, SoftTimeLimitExceeded):
            raise self.revoked from error

    def _watch(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                self._look()
            except TaskRevoked as revoked:
                self.revoked = revoked
                _tagger(self._spark).cancel(self._tag)
                return
            except (StemError, OSError):
                continue  # the store or the folder is away; the work goes on

    def _look(self) -> None:
        items, failed = counted(self._folder.kept())
        self._tell(items, failed)
        if self._context is not None:
            fraction = min(1.0, items / self._total) if self._total else None
            self._context.progress(fraction, f"{items:,} items", items=items, failed=failed)


def counted(files: list[ResultFile]) -> tuple[int, int]:
    """Items and failures in these files. If two tries have stored the same items, the longer file counts."""
    best: dict[tuple[int, int], ResultFile] = {}
    for file in sorted(files, key=lambda file: file.count):
        best[file.partition, file.first] = file
    return sum(file.count for file in best.values()), sum(file.failed for file in best.values())


class _Classic:
    def __init__(self, spark: "SparkSession") -> None:
        context = spark.sparkContext
        self.add, self.remove, self.cancel = context.addJobTag, context.removeJobTag, context.cancelJobsWithTag


class _Connect:
    def __init__(self, spark: "SparkSession") -> None:
        self.add, self.remove, self.cancel = spark.addTag, spark.removeTag, spark.interruptTag


def _tagger(spark: "SparkSession") -> _Classic | _Connect:
    from pyspark.sql.utils import is_remote

    return _Connect(spark) if is_remote() else _Classic(spark)
