"""A column of the gold table: how it is computed from facts, and how partial values are merged."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from stem.core.histogram import GROWTH, NOTHING
from stem.pipeline.rollups.facts import Facts, buckets

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

Kind = Literal["count", "total", "most", "histogram"]
_TYPES: dict[Kind, str] = {
    "count": "bigint",
    "total": "double",
    "most": "double",
    "histogram": "map<int,bigint>",
}


@dataclass(frozen=True, slots=True)
class Measure:
    """`of` gives one number per fact, NaN for none; it is None if no event has it. Merging may take any number of steps, in any
    order."""

    name: str
    kind: Kind
    of: "Callable[[Facts], np.ndarray[Any, Any]] | None" = None

    @property
    def type(self) -> str:
        return _TYPES[self.kind]

    def partial(self, facts: Facts, groups: "np.ndarray[Any, Any]", count: int) -> "pa.Array":
        """The value of each group of facts."""
        import numpy as np

        if self.of is None:
            return _nothing(self.kind, count)
        values = self.of(facts)
        if self.kind != "histogram":
            return _reduced(self.kind, values, groups, count)
        is_some = ~np.isnan(values)
        ones = np.ones(int(is_some.sum()), np.int64)
        return _histogram(buckets(values[is_some]), ones, groups[is_some], count)

    def merged(self, column: "pa.ChunkedArray", groups: "np.ndarray[Any, Any]", count: int) -> "pa.Array":
        """The merged value of each group of partial values."""
        import numpy as np

        if self.kind != "histogram":
            return _reduced(self.kind, column.to_numpy().astype("float64"), groups, count)
        maps = column.combine_chunks()
        offsets = maps.offsets.to_numpy()
        inside = slice(int(offsets[0]), int(offsets[-1]))
        rows = np.repeat(groups, np.diff(offsets))
        return _histogram(maps.keys.to_numpy()[inside], maps.items.to_numpy()[inside], rows, count)


def percentiles(maps: "pa.MapArray", share: float) -> "pa.Array":
    """The percentile of each histogram in seconds; null for an empty one. As `core.histogram.percentile`, for a column."""
    import numpy as np
    import pyarrow as pa

    offsets, seen = maps.offsets.to_numpy(), np.concatenate([[0], np.cumsum(maps.items.to_numpy())])
    before, after = seen[offsets[:-1]], seen[offsets[1:]]
    places = np.searchsorted(seen[1:], before + share * (after - before))
    found = maps.keys.to_numpy()[np.minimum(places, max(0, len(seen) - 2))] if len(seen) > 1 else np.zeros(len(maps))
    seconds = np.where(found == NOTHING, 0.0, 2 * np.power(GROWTH, found.astype(float)) / (1 + GROWTH))
    return pa.array(seconds, mask=before == after)


def sizes(maps: "pa.MapArray") -> "pa.Array":
    """The number of durations in each histogram."""
    import numpy as np
    import pyarrow as pa

    seen = np.concatenate([[0], np.cumsum(maps.items.to_numpy())])
    return pa.array(np.diff(seen[maps.offsets.to_numpy()]), pa.int64())


def _reduced(kind: Kind, values: "np.ndarray[Any, Any]", groups: "np.ndarray[Any, Any]", count: int) -> "pa.Array":
    import numpy as np
    import pyarrow as pa

    if kind == "most":
        most = np.full(count, -np.inf)
        np.maximum.at(most, groups, np.where(np.isnan(values), -np.inf, values))
        return pa.array(most, mask=np.isneginf(most))
    sums = np.bincount(groups, np.nan_to_num(values), count)
    return pa.array(np.rint(sums).astype(np.int64)) if kind == "count" else pa.array(sums.astype(np.float64))


def _histogram(
    keys: "np.ndarray[Any, Any]", counts: "np.ndarray[Any, Any]", groups: "np.ndarray[Any, Any]", count: int
) -> "pa.Array":
    """One map per group, with its buckets in order."""
    import numpy as np
    import pyarrow as pa

    cells, places = np.unique((groups.astype(np.int64) << 32) + (keys.astype(np.int64) - NOTHING), return_inverse=True)
    sums = np.rint(np.bincount(places, counts, len(cells))).astype(np.int64)
    offsets = np.searchsorted(cells, np.arange(count + 1, dtype=np.int64) << 32)
    inside = ((cells & 0xFFFFFFFF) + NOTHING).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(inside), pa.array(sums))


def _nothing(kind: Kind, count: int) -> "pa.Array":
    import pyarrow as pa

    return pa.nulls(count, pa.int64() if kind == "count" else pa.float64())
