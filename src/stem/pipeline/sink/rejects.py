"""The table of rows that could not become tasks, with the reason. Executors write it; the commit makes it visible."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from stem.pipeline.lake.delta import DataFile, Table
from stem.pipeline.sink.compose import BadRow

SHAPE = "job string, partition int, row bigint, reason string, data string, rejected_at timestamp"
_AT_ONCE = 50_000


class Rejects:
    """Collects the rejected rows of one try at a partition. `commit` makes them visible."""

    def __init__(self, root: str, job: str, partition: int) -> None:
        self._table = Table(root, SHAPE)
        self._job = job
        self._partition = partition
        self._pending: list[BadRow] = []
        self._files: list[DataFile] = []

    def add(self, rows: Iterable[BadRow]) -> None:
        self._pending += rows
        if len(self._pending) >= _AT_ONCE:
            self._write()

    def close(self) -> list[DataFile]:
        if self._pending:
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
            for bad in self._pending
        ]
        self._files += self._table.put(rows, day="rejected_at", batch=0)
        self._pending = []


def create(root: str) -> None:
    """Create the table when the write begins, so that a bad location is reported before any row. Raises LakeRefused."""
    Table(root, SHAPE).create()


def commit(root: str, job: str, files: Sequence[DataFile]) -> None:
    """Committing a job twice is a no-op."""
    if files:
        Table(root, SHAPE).commit(files, app=f"stem-rejects/{job}", batch=0)


def drop(root: str, files: Sequence[DataFile]) -> None:
    Table(root, SHAPE).drop(files)
