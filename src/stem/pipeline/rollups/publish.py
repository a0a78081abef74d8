"""Publish the gold rows of the minutes that a batch changed into the store, where commands read them without the lake."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from stem.contracts.rollups import Measures, MinuteRow
from stem.contracts.store import Store
from stem.pipeline.lake.delta import DataFile
from stem.pipeline.lake.lake import Lake
from stem.pipeline.lake.scan import Piece
from stem.pipeline.rollups import gold
from stem.pipeline.rollups.measure import Kind
from stem.pipeline.schemas import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = [*gold.KEYS, *(measure.name for measure in gold.MEASURES)]
_REMEMBERED = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class _Memory:
    """Merged gold from a minute on, as it is after a batch."""

    batch: int
    since: datetime
    rows: "pa.Table"


class RollupPublisher:
    """Called with each batch that gold has: replaces the store's rows of its minutes by those of the lake, so calling it again
    changes nothing.

    The last minutes stay in memory, so that the next batch reads only its own files. Two lakes of one store publish the same,
    once both have read its last event.
    """

    def __init__(self, lake: Lake, store: Store, *, keep_seconds: float) -> None:
        self._lake = lake
        self._store = store
        self._keep_seconds = keep_seconds
        self._memory: _Memory | None = None

    def __call__(self, batch: int) -> None:
        rows = self._read(self._lake.rollups.files_of(batch), self._horizon())
        if not len(rows):
            return
        memory, self._memory = self._memory, None  # after a failure, read again
        first, _ = _ends(rows)
        if memory is not None and memory.batch == batch - 1 and memory.since <= first:
            memory = _Memory(batch, memory.since, _grown(memory.rows, rows))
        else:  # the files include the batch
            memory = _Memory(batch, first, gold.merged(self._read(self._lake.rollups.files(), first)))
        self._store.rollups.put(_minute_rows(memory.rows, rows))
        self._memory = _shortened(memory)

    def _read(self, files: Iterable[DataFile], since: datetime) -> "pa.Table":
        import pyarrow as pa
        import pyarrow.dataset as ds

        day = since.date().isoformat()
        paths = tuple(file.path for file in files if file.date >= day)
        if not paths:
            return arrow_schema(self._lake.rollups.shape).empty_table()
        within = ds.field("minute") >= pa.scalar(since, pa.timestamp("us", tz="UTC"))
        return Piece(self._lake.rollups, paths).read(_COLUMNS, within)

    def _horizon(self) -> datetime:
        """Before this, the store keeps no minutes, or the lake has dropped parts of them."""
        return datetime.fromtimestamp(self._store.upkeep.now() - self._keep_seconds, UTC)


def _grown(whole: "pa.Table", rows: "pa.Table") -> "pa.Table":
    """Merge only the minutes that changed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_touched = pc.is_in(whole["minute"], pc.unique(rows["minute"]))
    touched = gold.merged(pa.concat_tables([whole.filter(is_touched), rows]))
    return pa.concat_tables([whole.filter(pc.invert(is_touched)), touched])


def _shortened(memory: _Memory) -> _Memory:
    import pyarrow.compute as pc

    _, last = _ends(memory.rows)
    since = max(memory.since, last - _REMEMBERED)
    return _Memory(memory.batch, since, memory.rows.filter(pc.field("minute") >= since))


def _ends(rows: "pa.Table") -> tuple[datetime, datetime]:
    """The first and the last minute."""
    import pyarrow.compute as pc

    both = pc.min_max(rows["minute"]).as_py()
    return both["min"], both["max"]


def _minute_rows(whole: "pa.Table", rows: "pa.Table") -> Iterator[MinuteRow]:
    """Rows for the store: merged gold of the keys that these rows have."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = set(_keys(rows))
    near = whole.filter(pc.is_in(whole["minute"], pc.unique(rows["minute"])))
    chosen = near.filter(pa.array([key in wanted for key in _keys(near)], pa.bool_()))
    sums, mosts, histograms = (
        _measures(chosen, "count", "total"),
        _measures(chosen, "most"),
        _measures(chosen, "histogram"),
    )
    for key, added, most, counted in zip(_keys(chosen), sums, mosts, histograms, strict=True):
        buckets = {name.removesuffix("_histogram"): dict(counts) for name, counts in counted.items()}
        yield MinuteRow(**dict(zip(gold.KEYS, key, strict=True)), measures=Measures(added, most, buckets))


def _keys(rows: "pa.Table") -> list[tuple[Any, ...]]:
    return list(zip(*(rows[key].to_pylist() for key in gold.KEYS), strict=True))


def _measures(rows: "pa.Table", *kinds: Kind) -> Iterator[dict[str, Any]]:
    """Per row, the measures of these kinds that are set. A sum of 0 counts as not set, a maximum of 0 as set."""
    names = [measure.name for measure in gold.MEASURES if measure.kind in kinds]
    nothing: tuple[object, ...] = (None,) if kinds == ("most",) else (None, 0, [])
    for values in zip(*(rows[name].to_pylist() for name in names), strict=True):
        yield {name: value for name, value in zip(names, values, strict=True) if value not in nothing}
