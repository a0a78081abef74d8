"""Rows of a DataFrame as the arguments of calls: columns to names, values to JSON, under the checks of an ordinary enqueue."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from stem.client.signature import Signature
from stem.core.envelope import encode_args
from stem.core.errors import InvalidArguments
from stem.core.record import TaskError

if TYPE_CHECKING:
    import pyarrow as pa


class Items(msgspec.Struct, frozen=True):
    """Some rows. `bad` says by place why one is no call; its `raw` is as near to it as JSON gets."""

    raws: list[bytes]
    keys: list[str] | None
    bad: dict[int, TaskError]


def items_of(batch: "pa.RecordBatch", signature: Signature, key: str | None, limit_bytes: int) -> Items:
    """A NULL in the column of an argument that has a default is no argument: the default holds."""
    names = [name for name in batch.schema.names if name != key]
    columns = [_values(batch.column(name)) for name in names]
    optional = frozenset(signature.names) - frozenset(signature.required)
    raws, bad = [], {}
    encode = msgspec.json.Encoder(enc_hook=str).encode
    rows: Iterator[tuple[Any, ...]] = zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)
    for place, row in enumerate(rows):
        arguments = dict(zip(names, row))  # noqa: B905 - for each of a million rows
        raw = encode(arguments)
        # A NULL, a number that is none, a text that not every store keeps: such are looked at, and most are not such.
        if b"null" in raw or b"\\u0000" in raw or len(raw) > limit_bytes:
            arguments = {name: value for name, value in arguments.items() if value is not None or name not in optional}
            raw = encode(arguments)
            if (error := _refused(arguments, limit_bytes)) is not None:
                bad[place] = error
        raws.append(raw)
    keys = None if key is None else _keys(batch.column(key).to_pylist(), bad)
    return Items(raws, keys, bad)


def _refused(arguments: Mapping[str, Any], limit_bytes: int) -> TaskError | None:
    try:
        encode_args(arguments, limit_bytes=limit_bytes)
    except InvalidArguments as error:
        return TaskError(type(error).__name__, str(error))
    return None


def _values(column: "pa.Array[Any]") -> list[Any]:
    import pyarrow as pa

    values: list[Any] = column.to_pylist()
    if pa.types.is_map(column.type):
        return [None if value is None else dict(value) for value in values]
    return values


def _keys(values: list[Any], bad: dict[int, TaskError]) -> list[str]:
    for place, value in enumerate(values):
        if value is None:
            bad[place] = TaskError("InvalidArguments", "Its key is NULL; give every row one.")
    return ["" if value is None else str(value) for value in values]
