"""Turn rows of a DataFrame into arguments as JSON, with the checks of an ordinary enqueue."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from stem.client.task.signature import FunctionSignature
from stem.core.envelope import encode_args
from stem.core.errors import InvalidArguments
from stem.core.record import TaskError
from stem.pipeline.sink.compose import values

if TYPE_CHECKING:
    import pyarrow as pa


class Items(msgspec.Struct, frozen=True):
    """Some rows. `bad` has the error of each row that cannot be run, by its place."""

    raws: list[bytes]
    keys: list[str] | None
    bad: dict[int, TaskError]


def items_of(batch: "pa.RecordBatch", signature: FunctionSignature, key: str | None, limit_bytes: int) -> Items:
    """A NULL for an argument with a default is left out, so the default applies."""
    names = [name for name in batch.schema.names if name != key]
    columns = [values(batch.column(name)) for name in names]
    rows = list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows
    raws, bad = _encoded(names, rows), dict[int, TaskError]()
    if _is_suspicious(raws, limit_bytes):
        _look_into(raws, bad, names, rows, signature, limit_bytes)
    keys = None if key is None else _keys(batch.column(key).to_pylist(), bad)
    return Items(raws, keys, bad)


def _encoded(names: list[str], rows: list[tuple[Any, ...]]) -> list[bytes]:
    fields = [(f"a{place}", Any) for place in range(len(names))]
    row = msgspec.defstruct("Row", fields, rename={f"a{place}": name for place, name in enumerate(names)}, gc=False)
    return [_encode(row(*values)) for values in rows]


def _is_suspicious(raws: list[bytes], limit_bytes: int) -> bool:
    """Whether there may be a NULL, a NaN, a NUL character, or too long a row. Most batches have none."""
    all_of_them = b"".join(raws)
    return b"null" in all_of_them or b"\\u0000" in all_of_them or max(map(len, raws), default=0) > limit_bytes


def _look_into(
    raws: list[bytes],
    bad: dict[int, TaskError],
    names: list[str],
    rows: list[tuple[Any, ...]],
    signature: FunctionSignature,
    limit_bytes: int,
) -> None:
    for place, raw in enumerate(raws):
        if not _is_suspicious([raw], limit_bytes):
            continue
        given = dict(zip(names, rows[place], strict=True))
        arguments = {
            name: value for name, value in given.items() if value is not None or name not in signature.optional
        }
        raws[place] = _encode(arguments)
        if (error := _refused(arguments, limit_bytes)) is not None:
            bad[place] = error


def _refused(arguments: Mapping[str, Any], limit_bytes: int) -> TaskError | None:
    try:
        encode_args(arguments, limit_bytes=limit_bytes)
    except InvalidArguments as error:
        return TaskError(type(error).__name__, str(error))
    return None


def _keys(cells: list[Any], bad: dict[int, TaskError]) -> list[str]:
    for place, cell in enumerate(cells):
        if cell is None:
            bad[place] = TaskError("InvalidArguments", "Its key is NULL; give every row one.")
    return ["" if cell is None else str(cell) for cell in cells]


_encode = msgspec.json.Encoder(enc_hook=str).encode
