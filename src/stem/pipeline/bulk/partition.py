"""Run one partition of a bulk on an executor; returns one row per file of results."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from stem.client.app import Stem
from stem.client.loading import load
from stem.core.record import TaskError
from stem.pipeline.bulk.chunks import Chunk, ResultFile, ResultFolder, sample
from stem.pipeline.bulk.items import Items, items_of
from stem.pipeline.bulk.protocol import Failed, ItemBlock, ItemResults, Job
from stem.pipeline.bulk.supervisor import ItemSupervisor

if TYPE_CHECKING:
    import pyarrow as pa

RESULT_FILES = "path string, partition int, first bigint, count bigint, failed bigint, digest string, size bigint"
CHUNK_ITEMS, CHUNK_SECONDS = (
    50_000,
    10.0,
)  # after the one or the other a chunk is closed, and written when all have ended
BLOCK_ITEMS = 1000

_apps: dict[str, Stem] = {}  # a Python process of Spark runs many partitions


def run_partition(job: Job, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Called by mapInArrow."""
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    files = Partition(_app(job), job, context.partitionId() if context is not None else 0).run(batches)
    for kept in files:
        yield pa.RecordBatch.from_pylist([msgspec.structs.asdict(kept)], schema=_result_file_schema())


def _app(job: Job) -> Stem:
    if job.app not in _apps:
        sys.path.extend(path for path in job.paths if path not in sys.path)
        _apps[job.app] = load(job.app)
    return _apps[job.app]


class Partition:
    def __init__(self, app: Stem, job: Job, number: int) -> None:
        self._app, self._job, self._number = app, job, number
        self._folder = ResultFolder(job.table, job.bulk)
        self._chunks: dict[int, Chunk] = {}
        self._earlier: dict[int, ResultFile] = {}  # by the number of the first item
        self._next = 0  # the number of the next item

    def run(self, batches: "Iterable[pa.RecordBatch]") -> Iterator[ResultFile]:
        self._folder.create()
        for kept in sorted(self._folder.kept(self._number), key=lambda kept: kept.count):
            self._earlier[kept.first] = kept
        supervisor = ItemSupervisor(self._app, self._job, self._number)
        try:
            yield from self._run(ItemQueue(self._items(batches)), supervisor)
        finally:
            supervisor.close()

    def _run(self, rows: "ItemQueue", supervisor: ItemSupervisor) -> Iterator[ResultFile]:
        chunk: Chunk | None = None
        while rows.has(1) or supervisor.holds:
            while supervisor.wants() and rows.has(1):
                if (kept := self._found(rows)) is not None:
                    _close(chunk)
                    chunk = None
                    yield kept
                    continue
                block = rows.take(min(supervisor.capacity(), BLOCK_ITEMS, self._until_kept()))
                chunk = self._give(block, supervisor, self._opened(chunk))
            if not rows.has(1):
                _close(chunk)
                chunk = None
            for word in supervisor.hear() if supervisor.holds else ():
                self._chunks[word.chunk].hear(word)
            yield from self._written()

    def _found(self, rows: "ItemQueue") -> ResultFile | None:
        """The results that an earlier run has stored for the next rows, which are then skipped."""
        kept = self._earlier.pop(self._next, None)
        if kept is None or not rows.has(kept.count) or rows.digest(kept.count) != kept.digest:
            return None
        rows.drop(kept.count)
        self._next += kept.count
        return kept

    def _until_kept(self) -> int:
        return min((first - self._next for first in self._earlier if first > self._next), default=BLOCK_ITEMS)

    def _give(self, block: Items, supervisor: ItemSupervisor, chunk: Chunk) -> Chunk:
        first = self._next
        self._next += len(block.raws)
        chunk.add(block.raws, block.keys)
        if not block.bad:
            supervisor.give(ItemBlock(chunk.first, first, block.raws, block.keys))
            return chunk
        now = time.time()
        refused = [_refused(first + place, error, now) for place, error in block.bad.items()]
        chunk.hear(ItemResults(chunk.first, [], [], [], b"", refused, []))
        for place, raw in enumerate(block.raws):
            if place not in block.bad:
                keys = None if block.keys is None else [block.keys[place]]
                supervisor.give(ItemBlock(chunk.first, first + place, [raw], keys))
        return chunk

    def _opened(self, chunk: Chunk | None) -> Chunk:
        if chunk is not None and not _is_full(chunk):
            return chunk
        _close(chunk)
        fresh = self._chunks[self._next] = Chunk(self._number, self._next, time.time())
        return fresh

    def _written(self) -> Iterator[ResultFile]:
        for first in [first for first, chunk in self._chunks.items() if chunk.is_done]:
            yield self._folder.write(self._chunks.pop(first))

    def _items(self, batches: "Iterable[pa.RecordBatch]") -> Iterator[Items]:
        signature = self._app.tasks[self._job.task].definition.signature
        if signature is None:
            raise TypeError(f"{self._job.task} has no code here.")
        limit = self._app.settings.max_args_bytes
        for batch in batches:
            yield items_of(batch, signature, self._job.key, limit)


class ItemQueue:
    """Items in order of arrival, taken in portions of any size."""

    def __init__(self, source: Iterator[Items]) -> None:
        self._source = source
        self._ahead: list[Items] = []
        self._count = 0

    def has(self, count: int) -> bool:
        while self._count < count and (fresh := next(self._source, None)) is not None:
            if fresh.raws:
                self._ahead.append(fresh)
                self._count += len(fresh.raws)
        return self._count >= count

    def take(self, most: int) -> Items:
        """Take at most `most` items of one batch; there must be some."""
        head = self._ahead[0]
        self._count -= min(most, len(head.raws))
        if len(head.raws) <= most:
            return self._ahead.pop(0)
        self._ahead[0] = _cut(head, most, len(head.raws))
        return _cut(head, 0, most)

    def digest(self, count: int) -> str:
        import hashlib

        digest = hashlib.blake2b(digest_size=8)
        for items in self._ahead:
            some = _cut(items, 0, min(count, len(items.raws)))
            digest.update(sample(some.raws, some.keys))
            count -= len(some.raws)
        return digest.hexdigest()

    def drop(self, count: int) -> None:
        while count:
            count -= len(self.take(count).raws)


def _cut(items: Items, first: int, last: int) -> Items:
    bad = {place - first: error for place, error in items.bad.items() if first <= place < last}
    return Items(items.raws[first:last], None if items.keys is None else items.keys[first:last], bad)


def _close(chunk: Chunk | None) -> None:
    if chunk is not None:
        chunk.is_closed = True


def _is_full(chunk: Chunk) -> bool:
    return chunk.count >= CHUNK_ITEMS or time.time() - chunk.opened_at >= CHUNK_SECONDS


def _refused(number: int, error: TaskError, now: float) -> Failed:
    return Failed(number, "invalid-arguments", error, 1, now, now)


def _result_file_schema() -> "pa.Schema":
    import pyarrow as pa

    text, long = pa.string(), pa.int64()
    kinds = [text, pa.int32(), long, long, long, text, long]
    return pa.schema(list(zip(ResultFile.__struct_fields__, kinds, strict=True)))
