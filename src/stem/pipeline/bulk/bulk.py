"""Run one task over a whole DataFrame: `app.bulk("image.resize").over(df).to("results/")` runs its items on executors."""

import hashlib
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from stem.client.app import Stem
from stem.client.locate import path_of
from stem.client.run.context import current_task, running
from stem.client.task.task import Task
from stem.core.errors import ConfigError, InvalidArguments, InvalidTask, StemError
from stem.core.ids import uuid7
from stem.pipeline.bulk import results_table
from stem.pipeline.bulk.chunks import ResultFile, ResultFolder
from stem.pipeline.bulk.dead_letters import dead_letter_of
from stem.pipeline.bulk.item_id import worker_name
from stem.pipeline.bulk.partition import RESULT_FILES, run_partition
from stem.pipeline.bulk.protocol import Job
from stem.pipeline.bulk.source import is_counted_quickly, rows
from stem.pipeline.bulk.watch import BulkWatch, OnProgress, counted
from stem.pipeline.sink.variants import refuse_nested
from stem.pipeline.spark.spark_errors import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY = "__key"  # the internal name of the column that names an item
BURY_COUNT = 500
RETRY_WAIT_SECONDS = 10.0

_PLAIN = re.compile(r"[^A-Za-z0-9._\-]", re.ASCII)


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a bulk. `buried` is the number of dead letters that this run added."""

    bulk: str
    table: str
    items: int
    succeeded: int
    failed: int
    buried: int
    seconds: float


class DataFrameBulk:
    """A task of the app, to be run over DataFrames. Its retry policy, limits and middleware apply to each item."""

    def __init__(self, app: Stem, name: str) -> None:
        self._app = app
        self._definition = app.sender(name).definition
        limited = self._definition.rate_limit or self._definition.max_concurrency
        if limited is not None:
            raise InvalidTask(
                f"{name} has a limit for the whole fleet, which executors cannot keep; "
                "enqueue its rows instead: df.write.format('stem')."
            )

    def over(
        self,
        frame: "DataFrame",
        *,
        key: str | None = None,
        columns: Mapping[str, str] | None = None,
        id: str | None = None,
        partitions: int | None = None,
        total: int | None = None,
        retry_wait: float = RETRY_WAIT_SECONDS,
        app: str | None = None,
    ) -> "BulkRun":
        """Prepare a run; `to` or `dataframe` starts it. `columns` maps arguments to columns (default: columns of the same name).
        `key` is the column that names an item, and of rows with equal keys one is run; without it an item is named by its
        partition and place. A bulk with the same `id` continues: finished items are not run again. In a task the id follows
        from the task's. `retry_wait` limits the pause before an item's next attempt. `app` says where executors import the
        app from, if that cannot be found.
        Raises InvalidArguments, InvalidTask.
        """
        wanted = self._columns(frame.columns, columns, key)
        chosen = frame.select(*[frame[column].alias(name) for name, column in wanted.items()])
        refuse_nested(chosen.schema)
        if key is not None:
            chosen = _one_per_key(chosen, partitions)
        elif partitions is not None:
            chosen = chosen.repartition(partitions)
        name, path = self._definition.name, app or _path_of(self._app)
        job = Job(
            bulk="" if id is None else _checked(id),
            task=name,
            app=path,
            paths=[place for place in sys.path if place],
            table="",
            key=KEY if key is not None else None,
            retry_wait_seconds=retry_wait,
        )
        return BulkRun(self._app, chosen, job, total)

    def task(self, *, engine: str | None = "spark", **options: Any) -> Task[..., dict[str, Any]]:
        """Add the bulk to the app as a task `NAME.bulk` that workers run: `resize_all.enqueue(source="in/", to="results/")`.
        Options are those of `@app.task`. Raises InvalidTask."""
        bulk = self

        def run(
            spark: Any,
            source: str,
            to: str,
            format: str | None = None,
            key: str | None = None,
            columns: dict[str, str] | None = None,
            partitions: int | None = None,
        ) -> dict[str, Any]:
            # Before the first Spark job: counting rows must not show as progress of the bulk.
            current_task().progress(0.0, "counting")
            frame = rows(spark, source, format)
            total = frame.count() if is_counted_quickly(source, format) else None
            chosen = bulk.over(frame, key=key, columns=columns, partitions=partitions, total=total)
            return msgspec.structs.asdict(chosen.to(to))

        made: Task[..., dict[str, Any]] = self._app.task(
            name=f"{self._definition.name}.bulk", engine=engine, **options
        )(run)
        return made

    def _columns(self, there: Sequence[str], given: Mapping[str, str] | None, key: str | None) -> dict[str, str]:
        signature = self._definition.signature
        for column in [*(given or {}).values(), *([key] if key is not None else [])]:
            if column not in there:
                raise InvalidArguments(f"There is no column {column!r}; there are {', '.join(there)}.")
        wanted = dict(given) if given is not None else {name: name for name in there}
        if signature is not None:
            if given is None and key is not None and key not in signature.names:
                del wanted[key]
            signature.bind_object(wanted)
        return wanted if key is None else {**wanted, KEY: key}


class BulkRun:
    """A bulk over one DataFrame, ready to run."""

    def __init__(self, app: Stem, frame: "DataFrame", job: Job, total: int | None) -> None:
        self._app, self._frame, self._job, self._total = app, frame, job, total

    def to(self, table: str | os.PathLike[str], *, tell: OnProgress = lambda _items, _failed: None) -> Summary:
        """Run all items, store their results in this Delta table, and add dead letters for those that failed. `tell` is called
        with items and failures about once a second. After an error, a call with the same id continues."""
        began_at = time.monotonic()
        job = self._placed(os.fspath(table))
        folder = ResultFolder(job.table, job.bulk)
        if (known := results_table.committed(job.table, job.bulk)) is not None:
            return _summary(job, *known, 0, began_at)
        files = self._run(job, folder, tell)
        buried = self._bury(job, folder, files)
        folder.tidy(results_table.commit(job.table, job.bulk, files))
        return _summary(job, *counted(files), buried, began_at)

    def dataframe(self) -> "DataFrame":
        """Run all items and return their results: item, ok, result, reason, error_type, error_message, attempts, started_at,
        finished_at. They are stored in the lake, in the table `bulk`."""
        summary = self.to(os.path.join(self._app.settings.pipeline.lake, "bulk"))
        return results_table.frame(self._frame.sparkSession, summary.table, summary.bulk)

    def _placed(self, table: str) -> Job:
        table = table if "://" in table else os.path.abspath(table)
        context = running.get()
        if self._job.bulk:
            bulk = self._job.bulk
        elif context is not None:  # the same in every attempt of the task
            digest = hashlib.sha256(f"{context.id}\n{self._job.task}\n{table}".encode()).hexdigest()[:8]
            bulk = f"{_PLAIN.sub('-', context.id)[:40]}.{digest}"
        else:
            bulk = uuid7(time.time(), os.urandom(10))
        return msgspec.structs.replace(self._job, bulk=bulk, table=table)

    def _run(self, job: Job, folder: ResultFolder, tell: OnProgress) -> list[ResultFile]:
        results = self._frame.mapInArrow(partial(run_partition, job), RESULT_FILES)
        with (
            BulkWatch(self._frame.sparkSession, folder, worker_name(job.bulk), running.get(), self._total, tell),
            _translated(),
        ):
            return [ResultFile(**row.asDict()) for row in results.collect()]

    def _bury(self, job: Job, folder: ResultFolder, files: list[ResultFile]) -> int:
        letters = iter(
            dead_letter_of(self._app, job, row) for file in files if file.failed for row in folder.failures(file)
        )
        some = (letter for letter in letters if letter is not None)
        buried = 0
        while batch := list(islice(some, BURY_COUNT)):
            receipts = self._app.store.broker.insert_dead(batch, worker=worker_name(job.bulk))
            buried += sum(receipt.created for receipt in receipts)
        return buried


class BulkFailed(StemError):
    """The executors could not run the items; the message has their error."""


def _one_per_key(frame: "DataFrame", partitions: int | None) -> "DataFrame":
    """Sorted, so that a bulk that continues finds the rows in the same places."""
    count = partitions or int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    return frame.repartition(count, KEY).dropDuplicates([KEY]).sortWithinPartitions(KEY)


@contextmanager
def _translated() -> Iterator[None]:
    """Raise an executor's error of Stem as BulkFailed, without the stack traces that Spark puts around it."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if (found := quoted(error)) is None:
            raise
        raise BulkFailed(str(found)) from error


def _path_of(app: Stem) -> str:
    try:
        return path_of(app)
    except ConfigError as error:
        raise ConfigError(
            "The app is no module's attribute, so executors cannot import it; make it one, or say where it is: "
            "over(df, app='module:name')."
        ) from error


def _checked(id: str) -> str:
    """Ids of bulks are parts of task ids and of folder names."""
    if not 1 <= len(id) <= 64 or _PLAIN.search(id) or not id[0].isalnum():
        raise InvalidTask(f"{id!r} is no id for a bulk; use 1 to 64 of letters, digits, '.', '_' and '-'.")
    return id


def _summary(job: Job, items: int, failed: int, buried: int, began_at: float) -> Summary:
    return Summary(job.bulk, job.table, items, items - failed, failed, buried, round(time.monotonic() - began_at, 3))
