"""Values that JSON has no form for, and that people pass all the same: Pydantic models, paths, numpy's numbers.

They are known by what they can do, so that neither Pydantic nor numpy is imported here.
"""

from pathlib import PurePath
from typing import Any


def to_plain(value: Any) -> Any:
    """What stands for it in JSON; msgspec's `enc_hook`. Raises TypeError where there is nothing."""
    kind = type(value)
    if _is_model(kind):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, PurePath):
        return str(value)
    if _is_numpy_scalar(kind):
        return value.item()
    raise TypeError(f"Encoding objects of type {kind.__module__}.{kind.__qualname__} is unsupported")


def from_plain(kind: type, value: Any) -> Any:
    """The value of that class again; msgspec's `dec_hook`. Raises ValueError, TypeError."""
    if not _is_model(kind):
        return kind(value)
    try:
        return kind.model_validate(value)  # type: ignore[attr-defined]
    except ValueError as error:
        raise ValueError(_faults(error)) from error


def has_plain(kind: object) -> bool:
    """Whether values of the class can be made plain and back."""
    return isinstance(kind, type) and (_is_model(kind) or issubclass(kind, PurePath) or _is_numpy_scalar(kind))


def _is_model(kind: type) -> bool:
    return hasattr(kind, "model_dump") and hasattr(kind, "model_validate")


def _is_numpy_scalar(kind: type) -> bool:
    return any(base.__module__ == "numpy" and base.__name__ == "generic" for base in kind.__mro__)


def _faults(error: ValueError) -> str:
    """Pydantic's complaints in one line."""
    faults = getattr(error, "errors", None)
    if not callable(faults):
        return str(error)
    return "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'the model'}: {fault['msg']}" for fault in faults())
