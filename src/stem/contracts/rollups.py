"""Counts and percentiles per minute, stored where a page or a command can read them at once."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from stem.core.histogram import percentile

KEYS = ("minute", "name", "queue", "worker", "tenant")
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
ROWS_AT_ONCE = 500  # in one transaction, so that no other writer waits for long
_DIGITS = 32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Number = int | float


class Measures(msgspec.Struct, frozen=True):
    """Measures by name: sums, maxima, and durations as buckets of `core.histogram`. An absent measure is zero."""

    sums: Mapping[str, Number] = {}
    mosts: Mapping[str, Number] = {}
    histograms: Mapping[str, Mapping[int, int]] = {}

    def shown(self) -> dict[str, Number | None]:
        """The measures, with counts and percentiles for histograms, named as in the lake: `runs`, `run_p50`, …, in seconds."""
        found: dict[str, Number | None] = {**self.sums, **self.mosts}
        for what, counts in self.histograms.items():
            found[f"{what}s"] = sum(counts.values())
            found |= {f"{what}_{name}": percentile(counts, share) for name, share in SHARES.items()}
        return found


class MinuteRow(msgspec.Struct, frozen=True, kw_only=True):
    """The measures of one minute under one key. None: the events named no task, queue, worker or tenant."""

    minute: datetime
    name: str | None = None
    queue: str | None = None
    worker: str | None = None
    tenant: str | None = None
    measures: Measures = Measures()


class RollupCell(NamedTuple):
    """A row as stores keep it. The digest replaces the key, which may be too long for an index."""

    micros: int  # of the minute's beginning, since 1970
    digest: str
    body: str


class Rollups(ABC):
    """Rows are replaced, never added to: a writer puts a whole row, as often as it likes. A row is kept for the retention's
    `events_seconds` after its minute."""

    def put(self, rows: Iterable[MinuteRow]) -> None:
        """Replace the rows of the same minute and key; of two in one call the later counts.

        Each row is written whole, but a call that fails may have written some: repeat it.
        """
        cells = {(cell.micros, cell.digest): cell for cell in map(_cell, rows)}
        ordered = [cells[place] for place in sorted(cells)]  # so that two writers never wait for each other
        for start in range(0, len(ordered), ROWS_AT_ONCE):
            self._put(ordered[start : start + ROWS_AT_ONCE])

    def read(self, since: datetime, until: datetime) -> Iterator[MinuteRow]:
        """The rows of minutes that begin from `since` on and before `until`, ordered by minute."""
        return map(_row, self._read(_micros(since), _micros(until)))

    @abstractmethod
    def _put(self, cells: Sequence[RollupCell]) -> None:
        """Write all cells or none. No two have the same minute and digest."""

    @abstractmethod
    def _read(self, since: int, until: int) -> Iterator[str | bytes]:
        """Bodies of cells, ordered by minute."""


def merged(rows: Iterable[MinuteRow], by: Sequence[str]) -> dict[tuple[Any, ...], Measures]:
    """Merge the rows by some of KEYS, and return the measures of each combination of values."""
    groups: dict[tuple[Any, ...], list[Measures]] = {}
    for row in rows:
        groups.setdefault(tuple(getattr(row, key) for key in by), []).append(row.measures)
    return {key: _one(group) for key, group in groups.items()}


def _one(group: Sequence[Measures]) -> Measures:
    sums: dict[str, Number] = {}
    mosts: dict[str, Number] = {}
    histograms: dict[str, dict[int, int]] = {}
    for each in group:
        for name, value in each.sums.items():
            sums[name] = sums.get(name, 0) + value
        for name, value in each.mosts.items():
            mosts[name] = max(mosts.get(name, value), value)
        for name, counts in each.histograms.items():
            together = histograms.setdefault(name, {})
            for bucket, count in counts.items():
                together[bucket] = together.get(bucket, 0) + count
    return Measures(sums, mosts, histograms)


def _cell(row: MinuteRow) -> RollupCell:
    key = _encode((row.name, row.queue, row.worker, row.tenant))
    return RollupCell(_micros(row.minute), sha256(key).hexdigest()[:_DIGITS], _encode(row).decode())


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


_encode = msgspec.json.Encoder().encode
_row = msgspec.json.Decoder(MinuteRow).decode
