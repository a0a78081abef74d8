"""Converts values that JSON has no form for: Pydantic models, paths, numpy numbers.

Classes are recognised by their methods, so that neither Pydantic nor numpy is imported.
"""

from pathlib import PurePath
from typing import Any


def to_plain(value: Any) -> Any:
    """Return the JSON form of a value; msgspec's `enc_hook`. Raises TypeError."""
    kind = type(value)
    if _is_model(kind):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, PurePath):
        return str(value)
    if _is_numpy_scalar(kind):
        return value.item()
    raise TypeError(f"Encoding objects of type {kind.__module__}.{kind.__qualname__} is unsupported")


def from_plain(kind: type, value: Any) -> Any:
    """Convert the JSON form back; msgspec's `dec_hook`. Raises ValueError, TypeError."""
    if not _is_model(kind):
        return kind(value)
    try:
        return kind.model_validate(value)  # type: ignore[attr-defined]
    except ValueError as error:
        raise ValueError(_problems(error)) from error


def has_plain(kind: object) -> bool:
    """Whether values of the class can be converted and back."""
    return isinstance(kind, type) and (_is_model(kind) or issubclass(kind, PurePath) or _is_numpy_scalar(kind))


def _is_model(kind: type) -> bool:
    return hasattr(kind, "model_dump") and hasattr(kind, "model_validate")


def _is_numpy_scalar(kind: type) -> bool:
    return any(base.__module__ == "numpy" and base.__name__ == "generic" for base in kind.__mro__)


def _problems(error: ValueError) -> str:
    """Pydantic's complaints in one line."""
    problems = getattr(error, "errors", None)
    if not callable(problems):
        return str(error)
    return "; ".join(f"{'.'.join(map(str, problem['loc'])) or 'the model'}: {problem['msg']}" for problem in problems())
