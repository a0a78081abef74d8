"""The table of rows that could not become tasks, and why: written where the rows are, seen once the write is committed."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from stem.pipeline.composing import Bad
from stem.pipeline.delta import File, Table

SHAPE = "job string, partition int, row bigint, reason string, data string, rejected_at timestamp"
_AT_ONCE = 50_000


class Rejects:
    """What one try at a partition rejects. None is known to the table before `commit`."""

    def __init__(self, root: str, job: str, partition: int) -> None:
        self._table = Table(root, SHAPE)
        self._job = job
        self._partition = partition
        self._waiting: list[Bad] = []
        self._files: list[File] = []

    def add(self, rows: Iterable[Bad]) -> None:
        self._waiting += rows
        if len(self._waiting) >= _AT_ONCE:
            self._write()

    def close(self) -> list[File]:
        if self._waiting:
            self._write()
        return self._files

    def _write(self) -> None:
        now = datetime.now(UTC)
        rows = [
            {
                "job": self._job,
                "partition": self._partition,
                "row": bad.row,
                "reason": bad.reason,
                "data": bad.data,
                "rejected_at": now,
            }
            for bad in self._waiting
        ]
        self._files += self._table.put(rows, day="rejected_at", batch=0)
        self._waiting = []


def create(root: str) -> None:
    """Where the write begins, so that a place that cannot be written to is known before any row is. Raises LakeRefused."""
    Table(root, SHAPE).create()


def commit(root: str, job: str, files: Sequence[File]) -> None:
    """Once for each job, however often it is said."""
    if files:
        Table(root, SHAPE).commit(files, app=f"stem-rejects/{job}", batch=0)


def drop(root: str, files: Sequence[File]) -> None:
    Table(root, SHAPE).drop(files)
