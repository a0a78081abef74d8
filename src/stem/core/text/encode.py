"""Encodes arguments, results and meta as JSON, or says why it cannot."""

import math
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from stem.core.errors import InvalidArguments
from stem.core.text.plain import to_plain

_encoder = msgspec.json.Encoder(enc_hook=to_plain)
_ESCAPED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def encode_json(value: Any, *, what: str, limit_bytes: int, option: str = "max_args_bytes") -> msgspec.Raw:
    """Encode a value as JSON that every store can keep. `what` names the value in an error, `option` names the setting of
    its limit. Raises InvalidArguments."""
    try:
        encoded = _encoder.encode(value)
    except RecursionError as error:
        raise _too_deep(what) from error
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise InvalidArguments(
            f"Something in {what} is not JSON ({error}); use strings, numbers, lists, dicts, dataclasses, "
            "Pydantic models or msgspec structs."
        ) from error
    if len(encoded) > limit_bytes:
        raise InvalidArguments(
            f"The JSON of {what} takes {len(encoded):,} bytes and the limit is {limit_bytes:,}; "
            f"store the data elsewhere and pass a reference, or raise {option}."
        )
    if b"\\u0000" in encoded and _ESCAPED_NUL.search(encoded):
        raise InvalidArguments(f"A text in {what} holds a NUL character, which not every store can keep; remove it.")
    if b"null" in encoded and _holds_nan(value):
        # The encoder silently writes null for it.
        raise InvalidArguments(f"A number in {what} is NaN or infinite; JSON has none, use None or a string.")
    try:
        msgspec.json.decode(encoded)
    except RecursionError as error:
        raise _too_deep(what) from error
    return msgspec.Raw(encoded)


def _too_deep(what: str) -> InvalidArguments:
    return InvalidArguments(f"Something in {what} is nested too deeply for JSON; flatten it.")


def _holds_nan(value: Any) -> bool:
    """Search without recursion: a value may be nested deeper than Python's stack."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, float):
            if not math.isfinite(one):
                return True
        elif not isinstance(one, str | int | bytes | None):
            waiting.extend(_parts(one))
    return False


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple | set | frozenset):
        return value
    kind = type(value)
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
    else:
        names = (*getattr(kind, "__dataclass_fields__", ()), *(a.name for a in getattr(kind, "__attrs_attrs__", ())))
    return [getattr(value, name, None) for name in names]
