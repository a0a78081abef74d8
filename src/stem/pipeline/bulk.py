"""One task over a whole DataFrame: `app.bulk("image.resize").over(df).to("results/")` runs its items on the executors."""

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
from stem.client.context import current_task, running
from stem.client.locate import path_of
from stem.client.task import Task
from stem.core.errors import ConfigError, InvalidArguments, InvalidTask, StemError
from stem.core.ids import uuid7
from stem.pipeline import bulk_table
from stem.pipeline.bulk_chunks import Folder, Kept
from stem.pipeline.bulk_graves import fallen
from stem.pipeline.bulk_id import worker_name
from stem.pipeline.bulk_partition import KEPT, run_partition
from stem.pipeline.bulk_source import is_counted_quickly, rows
from stem.pipeline.bulk_watch import Tell, Watch, counted
from stem.pipeline.bulk_words import Job
from stem.pipeline.variants import refuse_nested

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY = "__key"  # what the column that names an item is called on its way
BURY_COUNT = 500
RETRY_WAIT_SECONDS = 10.0

_SAID = re.compile(r"^\s*stem\.[\w.]+: (.+)$", re.MULTILINE)
_PLAIN = re.compile(r"[^A-Za-z0-9._\-]", re.ASCII)


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """What a bulk came to. `buried` are the dead letters that this run has made: none for those that were there."""

    bulk: str
    table: str
    items: int
    succeeded: int
    failed: int
    buried: int
    seconds: float


class Bulk:
    """A task of the app, to be run over DataFrames. Its retry policy, limits and middleware hold for each item."""

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
    ) -> "Over":
        """Nothing runs yet. `columns` says which column each argument is (default: the one of its name), `key` which one
        names the item, and of rows with equal keys one is run; without it an item is named by its partition and place there.
        The same `id` is the same bulk: what it has done is not done again. In a task the id follows from the task's.
        `retry_wait` is the longest pause before an item's next attempt, and `app` where executors import the app from, if that
        is not to be seen.
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
        return Over(self._app, chosen, job, total)

    def task(self, *, engine: str | None = "spark", **options: Any) -> Task[..., dict[str, Any]]:
        """The bulk as a task of the app, `NAME.bulk`, that workers run: `all_of_them.enqueue(source="in/", to="results/")`
        says where the rows are and where the results go. Options are those of `@app.task`. Raises InvalidTask."""
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
            # Before the first Spark job: whoever tells how far it is goes on telling it, and a count of rows is no progress.
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


class Over:
    """A bulk that is ready to run."""

    def __init__(self, app: Stem, frame: "DataFrame", job: Job, total: int | None) -> None:
        self._app, self._frame, self._job, self._total = app, frame, job, total

    def to(self, table: str | os.PathLike[str], *, tell: Tell = lambda _items, _failed: None) -> Summary:
        """Run all items, keep their results in this Delta table, and make dead letters of those that failed. `tell` hears
        about once a second how far it is. Raises what stops it; a second call with the same id goes on from there."""
        began_at = time.monotonic()
        job = self._placed(os.fspath(table))
        folder = Folder(job.table, job.bulk)
        if (known := bulk_table.committed(job.table, job.bulk)) is not None:
            return _summary(job, *known, 0, began_at)
        files = self._run(job, folder, tell)
        buried = self._bury(job, folder, files)
        folder.tidy(bulk_table.commit(job.table, job.bulk, files))
        return _summary(job, *counted(files), buried, began_at)

    def dataframe(self) -> "DataFrame":
        """Run all items and give their results back: item, ok, result, reason, error_type, error_message, attempts,
        started_at, finished_at. They are kept in the lake, in the table `bulk`."""
        summary = self.to(os.path.join(self._app.settings.pipeline.lake, "bulk"))
        return bulk_table.frame(self._frame.sparkSession, summary.table, summary.bulk)

    def _placed(self, table: str) -> Job:
        table = table if "://" in table else os.path.abspath(table)
        context = running.get()
        if self._job.bulk:
            bulk = self._job.bulk
        elif context is not None:  # the same in every attempt of the task
            mark = hashlib.sha256(f"{context.id}\n{self._job.task}\n{table}".encode()).hexdigest()[:8]
            bulk = f"{_PLAIN.sub('-', context.id)[:40]}.{mark}"
        else:
            bulk = uuid7(time.time(), os.urandom(10))
        return msgspec.structs.replace(self._job, bulk=bulk, table=table)

    def _run(self, job: Job, folder: Folder, tell: Tell) -> list[Kept]:
        results = self._frame.mapInArrow(partial(run_partition, job), KEPT)
        with (
            Watch(self._frame.sparkSession, folder, worker_name(job.bulk), running.get(), self._total, tell),
            _plainly(),
        ):
            return [Kept(**row.asDict()) for row in results.collect()]

    def _bury(self, job: Job, folder: Folder, files: list[Kept]) -> int:
        letters = iter(fallen(self._app, job, row) for file in files if file.failed for row in folder.failures(file))
        some = (letter for letter in letters if letter is not None)
        buried = 0
        while batch := list(islice(some, BURY_COUNT)):
            receipts = self._app.store.broker.bury(batch, worker=worker_name(job.bulk))
            buried += sum(receipt.created for receipt in receipts)
        return buried


class BulkFailed(StemError):
    """The executors could not run the items; what they said stands in the message."""


def _one_per_key(frame: "DataFrame", partitions: int | None) -> "DataFrame":
    """Sorted, so that a bulk that goes on finds the rows where they were."""
    count = partitions or int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    return frame.repartition(count, KEY).dropDuplicates([KEY]).sortWithinPartitions(KEY)


@contextmanager
def _plainly() -> Iterator[None]:
    """What Stem said on an executor, without the pages that Spark puts around it."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if (found := _SAID.search(str(error))) is None:
            raise
        raise BulkFailed(found[1]) from error


def _path_of(app: Stem) -> str:
    try:
        return path_of(app)
    except ConfigError as error:
        raise ConfigError(
            "The app is no module's attribute, so executors cannot import it; make it one, or say where it is: "
            "over(df, app='module:name')."
        ) from error


def _checked(id: str) -> str:
    """It stands in the ids of tasks, and in the names of folders."""
    if not 1 <= len(id) <= 64 or _PLAIN.search(id) or not id[0].isalnum():
        raise InvalidTask(f"{id!r} is no id for a bulk; use 1 to 64 of letters, digits, '.', '_' and '-'.")
    return id


def _summary(job: Job, items: int, failed: int, buried: int, began_at: float) -> Summary:
    return Summary(job.bulk, job.table, items, items - failed, failed, buried, round(time.monotonic() - began_at, 3))
