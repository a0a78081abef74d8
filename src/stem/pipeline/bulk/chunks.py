"""Files with the results of a bulk: one per chunk of items, reused when the bulk is run again."""

import hashlib
import re
import uuid
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from stem.pipeline.bulk.protocol import Failed, ItemResults

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

_NAME = re.compile(r"(\d+)-(\d+)-(\d+)-(\d+)-([0-9a-f]{16})-[0-9a-f]{8}\.parquet")


class ResultFile(msgspec.Struct, frozen=True):
    """A file with the results of items `first` to `first + count` of a partition; `digest` identifies the items."""

    path: str  # relative to the table
    partition: int
    first: int
    count: int
    failed: int
    digest: str
    size: int


def schema() -> "pa.Schema":
    """The schema of a file. The column `bulk` is in its path."""
    import pyarrow as pa

    moment = pa.timestamp("us", tz="UTC")
    return pa.schema(
        [
            pa.field("item", pa.string()),
            pa.field("ok", pa.bool_()),
            pa.field("result", pa.string()),
            pa.field("reason", pa.string()),
            pa.field("error_type", pa.string()),
            pa.field("error_message", pa.string()),
            pa.field("error_stack", pa.string()),
            pa.field("attempts", pa.int32()),
            pa.field("args", pa.string()),
            pa.field("started_at", moment),
            pa.field("finished_at", moment),
        ]
    )


@dataclass(slots=True)
class Chunk:
    """Items that are stored together, and their results so far."""

    partition: int
    first: int
    opened_at: float
    count: int = 0
    is_closed: bool = False
    hash: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=8))
    numbers: list[int] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    times: "array[float]" = field(default_factory=lambda: array("d"))
    failed: list[Failed] = field(default_factory=list)
    raws: dict[int, list[bytes]] = field(default_factory=dict)  # by the number of the first item
    keys: list[str] = field(default_factory=list)

    def add(self, raws: list[bytes], keys: list[str] | None) -> None:
        self.raws[self.first + self.count] = raws
        self.count += len(raws)
        self.keys.extend(keys or ())
        self.hash.update(sample(raws, keys))

    def hear(self, word: ItemResults) -> None:
        self.numbers += word.numbers
        self.payloads += word.payloads
        self.attempts += word.attempts
        self.times.frombytes(word.times)
        self.failed += word.failed

    @property
    def is_done(self) -> bool:
        return self.is_closed and len(self.numbers) + len(self.failed) == self.count

    def raw(self, number: int) -> bytes:
        first = max(first for first in self.raws if first <= number)
        return self.raws[first][number - first]

    def table(self) -> "pa.Table":
        import pyarrow as pa

        done, numbers = len(self.numbers), [*self.numbers, *(each.number for each in self.failed)]
        errors = [each.error for each in self.failed]
        none = [None] * done
        times = array("d", self.times)
        for each in self.failed:
            times.extend((each.started_at, each.finished_at))
        columns = [
            pa.array(self._items(numbers), pa.string()),
            pa.array([True] * done + [False] * len(self.failed), pa.bool_()),
            pa.array([*self.payloads, *[None] * len(self.failed)], pa.string()),
            pa.array([*none, *(each.reason for each in self.failed)], pa.string()),
            pa.array([*none, *(error.type for error in errors)], pa.string()),
            pa.array([*none, *(error.message for error in errors)], pa.string()),
            pa.array([*none, *(error.stack for error in errors)], pa.string()),
            pa.array([*self.attempts, *(each.attempts for each in self.failed)], pa.int32()),
            pa.array([*none, *(self.raw(each.number) for each in self.failed)], pa.string()),
            _moments(times, 0),
            _moments(times, 1),
        ]
        return pa.Table.from_arrays(columns, schema=schema())

    def _items(self, numbers: list[int]) -> list[str]:
        if self.keys:
            return [self.keys[number - self.first] for number in numbers]
        partition = self.partition
        return [f"{partition}-{number}" for number in numbers]


class ResultFolder:
    """The folder of one bulk, on the file system of its table."""

    def __init__(self, table: str, bulk: str) -> None:
        self.system, self._root = located(table)
        self.name = f"bulk={bulk}"
        self._folder = f"{self._root}/{self.name}"

    def create(self) -> None:
        self.system.create_dir(self._folder, recursive=True)

    def kept(self, partition: int | None = None) -> list[ResultFile]:
        from pyarrow import fs

        found = self.system.get_file_info(fs.FileSelector(self._folder, allow_not_found=True))
        files = [kept for info in found if (kept := _kept(self.name, info.base_name, info.size)) is not None]
        return [file for file in files if partition in (None, file.partition)]

    def write(self, chunk: Chunk) -> ResultFile:
        """Write a file atomically: it gets its name when it is complete."""
        import pyarrow.parquet as pq

        digest, failed = chunk.hash.hexdigest(), len(chunk.failed)
        name = f"{chunk.partition}-{chunk.first}-{chunk.count}-{failed}-{digest}-{uuid.uuid4().hex[:8]}.parquet"
        fresh, final = f"{self._folder}/.{name}", f"{self._folder}/{name}"
        with self.system.open_output_stream(fresh) as stream:
            pq.write_table(
                chunk.table(),
                stream,
                compression="zstd",
                use_dictionary=["reason", "error_type"],
                write_statistics=False,
            )
            size = stream.tell()
        self.system.move(fresh, final)
        return ResultFile(f"{self.name}/{name}", chunk.partition, chunk.first, chunk.count, failed, digest, size)

    def failures(self, kept: ResultFile) -> Iterator[dict[str, Any]]:
        """The rows of a file that failed."""
        import pyarrow.parquet as pq

        with self.system.open_input_file(f"{self._root}/{kept.path}") as source:
            for batch in pq.ParquetFile(source).iter_batches():
                yield from (row for row in batch.filter(_not(batch.column("ok"))).to_pylist())

    def tidy(self, wanted: set[str]) -> None:
        """Delete the files of tries that did not count."""
        from pyarrow import fs

        for info in self.system.get_file_info(fs.FileSelector(self._folder, allow_not_found=True)):
            if info.base_name not in wanted:
                with suppress(OSError):
                    self.system.delete_file(info.path)


def located(table: str) -> "tuple[fs.FileSystem, str]":
    """The file system of a path or address, and the path in it."""
    import os

    from pyarrow import fs

    if "://" not in table:
        return fs.LocalFileSystem(), os.path.abspath(table)
    system, path = fs.FileSystem.from_uri(table)
    return system, path.rstrip("/")


def sample(raws: list[bytes], keys: list[str] | None) -> bytes:
    """The input of a digest; it does not depend on how rows are split into batches."""
    if keys is None:
        return b"\n".join([*raws, b""])
    return b"".join(
        b"%b\t%b\n" % (key.encode(errors="surrogatepass"), raw) for key, raw in zip(keys, raws, strict=True)
    )


def _kept(folder: str, name: str, size: int) -> ResultFile | None:
    if (found := _NAME.fullmatch(name)) is None:
        return None
    partition, first, count, failed = map(int, found.groups()[:4])
    return ResultFile(f"{folder}/{name}", partition, first, count, failed, found[5], size)


def _moments(times: "array[float]", which: int) -> "pa.Array[Any]":
    import numpy as np
    import pyarrow as pa

    seconds = np.frombuffer(times, dtype="float64")[which::2]
    return pa.array((seconds * 1e6).astype("int64"), pa.timestamp("us", tz="UTC"))


def _not(column: "pa.Array[Any]") -> "pa.Array[Any]":
    import pyarrow.compute as pc

    return pc.invert(column)
