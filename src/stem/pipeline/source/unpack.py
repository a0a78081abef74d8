"""Turn packed columns of a store into Arrow arrays without a Python object per value."""

from typing import TYPE_CHECKING

from stem.contracts.history import GAP, NO_NUMBER, NULL, Numbers, Packed, Texts

if TYPE_CHECKING:
    import pyarrow as pa


def unpacked(chunk: Packed) -> "list[pa.Array] | None":
    """Texts as strings, numbers as int64; None if a text contains the separator or is not valid text."""
    import pyarrow as pa

    found: list[pa.Array] = []
    for column in chunk.columns:
        try:
            array = _numbers(column) if isinstance(column, Numbers) else _texts(column, chunk.count)
        except pa.ArrowInvalid:
            return None
        if array is None or len(array) != chunk.count:
            return None
        found.append(array)
    return found


def _texts(column: Texts, count: int) -> "pa.Array | None":
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.nulls == count:
        return pa.nulls(count, pa.string())
    found = pc.split_pattern(pa.array([column.joined], pa.string()), GAP).values
    if column.nulls == 0:
        return found
    is_some = pc.not_equal(found, NULL)
    if pc.sum(is_some).as_py() != len(found) - column.nulls:
        return None
    _, offsets, texts = found.buffers()
    return pa.Array.from_buffers(pa.string(), len(found), [is_some.buffers()[1], offsets, texts], column.nulls)


def _numbers(column: Numbers) -> "pa.Array":
    import numpy as np
    import pyarrow as pa

    found = np.fromstring(column.joined, np.int64, sep=",")
    is_none = found == NO_NUMBER
    return pa.array(found, mask=is_none if is_none.any() else None)
