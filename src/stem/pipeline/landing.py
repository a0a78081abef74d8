"""Gold of the minutes that a batch touched, whole, into the store: where a page or a command reads it without the lake."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from stem.contracts.rollups import Measures, MinuteRow
from stem.contracts.store import Store
from stem.pipeline.delta import File, arrow_schema
from stem.pipeline.lake import Lake
from stem.pipeline.rollups import gold
from stem.pipeline.rollups.measure import Kind
from stem.pipeline.scan import Piece

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = [*gold.KEYS, *(measure.name for measure in gold.MEASURES)]
_REMEMBERED = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class _Memory:
    """All of gold from a minute on, merged, as it is after a batch."""

    batch: int
    since: datetime
    rows: "pa.Table"


class Landing:
    """Called with each batch that gold has, once or again: rows are replaced by what the lake then holds of their minutes.

    The last minutes are remembered, so that a batch like the one before reads nothing but its own files. Two lakes of one
    store put the same, as soon as both have come to its last event.
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
        memory, self._memory = self._memory, None  # what fails half way is not built upon
        first, _ = _ends(rows)
        if memory is not None and memory.batch == batch - 1 and memory.since <= first:
            memory = _Memory(batch, memory.since, _grown(memory.rows, rows))
        else:  # the batch is among what is read
            memory = _Memory(batch, first, gold.merged(self._read(self._lake.rollups.files(), first)))
        self._store.rollups.put(_minute_rows(memory.rows, rows))
        self._memory = _shortened(memory)

    def _read(self, files: Iterable[File], since: datetime) -> "pa.Table":
        import pyarrow as pa
        import pyarrow.dataset as ds

        day = since.date().isoformat()
        paths = tuple(file.path for file in files if file.date >= day)
        if not paths:
            return arrow_schema(self._lake.rollups.shape).empty_table()
        within = ds.field("minute") >= pa.scalar(since, pa.timestamp("us", tz="UTC"))
        return Piece(self._lake.rollups, paths).read(_COLUMNS, within)

    def _horizon(self) -> datetime:
        """Before it the store keeps no minute, or the lake no longer has the whole of one."""
        return datetime.fromtimestamp(self._store.upkeep.now() - self._keep_seconds, UTC)


def _grown(whole: "pa.Table", rows: "pa.Table") -> "pa.Table":
    """Only the minutes touched are merged anew."""
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
    """The first minute and the last."""
    import pyarrow.compute as pc

    both = pc.min_max(rows["minute"]).as_py()
    return both["min"], both["max"]


def _minute_rows(whole: "pa.Table", rows: "pa.Table") -> Iterator[MinuteRow]:
    """Merged gold as the store keeps it, of the keys that these rows have."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = set(_keys(rows))
    near = whole.filter(pc.is_in(whole["minute"], pc.unique(rows["minute"])))
    chosen = near.filter(pa.array([key in wanted for key in _keys(near)], pa.bool_()))
    sums, mosts, histograms = _told(chosen, "count", "total"), _told(chosen, "most"), _told(chosen, "histogram")
    for key, added, most, counted in zip(_keys(chosen), sums, mosts, histograms, strict=True):
        buckets = {name.removesuffix("_histogram"): dict(counts) for name, counts in counted.items()}
        yield MinuteRow(**dict(zip(gold.KEYS, key, strict=True)), measures=Measures(added, most, buckets))


def _keys(rows: "pa.Table") -> list[tuple[Any, ...]]:
    return list(zip(*(rows[key].to_pylist() for key in gold.KEYS), strict=True))


def _told(rows: "pa.Table", *kinds: Kind) -> Iterator[dict[str, Any]]:
    """By row, the measures of these kinds that say something: a sum of nothing says nothing, a most of 0 does."""
    names = [measure.name for measure in gold.MEASURES if measure.kind in kinds]
    nothing: tuple[object, ...] = (None,) if kinds == ("most",) else (None, 0, [])
    for values in zip(*(rows[name].to_pylist() for name in names), strict=True):
        yield {name: value for name, value in zip(names, values, strict=True) if value not in nothing}
