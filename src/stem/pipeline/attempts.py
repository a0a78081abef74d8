"""Derive attempts from events: one row per event that ended an attempt."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from stem.core.lifecycle import EventKind
from stem.core.text.fingerprint import fingerprint
from stem.pipeline import schemas

if TYPE_CHECKING:
    import pyarrow as pa

# Events that may end an attempt.
ENDINGS = (EventKind.SUCCEEDED, EventKind.RETRIED, EventKind.FAILED, EventKind.REVOKED, EventKind.REQUEUED)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BY_KIND_ALONE = ("succeeded", "retried")  # the other endings also have a reason
# How the reason of a dead isolate began before events said `died`; logs of older versions are still read.
_OLD_REASON_OF_DEATH = "The process that ran the task"
_of_error = lru_cache(4096)(fingerprint)


class _Data(msgspec.Struct, rename="camel"):
    """What the data of an ending may say. A worker may have added anything."""

    reason: Any = None
    due_at: Any = None
    died: Any = None


_decode = msgspec.json.Decoder(_Data).decode


def attempts_of(events: "pa.Table") -> "pa.Table":
    """The attempts that these events ended, by the columns of `schemas.ATTEMPTS`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = events.filter(pc.is_in(events["kind"], pa.array([kind.value for kind in ENDINGS])))
    reasons, outcomes = _reasons_and_outcomes(ends)
    columns: dict[str, Any] = {
        "outcome": pa.array(outcomes, pa.string()),
        "reason": pa.array(reasons, pa.string()),
        "fingerprint": pa.array(_fingerprints(ends), pa.string()),
        "finished_at": ends["at"],
        "wait_seconds": pc.if_else(pc.equal(ends["attempt"], 0), _seconds(_ready_at(ends), ends["started_at"]), None),
        "run_seconds": _seconds(ends["started_at"], ends["at"]),
    }
    named = schemas.names(schemas.ATTEMPTS)
    rows = pa.table([columns[name] if name in columns else ends[name] for name in named], names=named)
    return rows.filter(pc.is_valid(rows["outcome"]))


def fingerprint_or_none(error_type: str | None, message: str | None) -> str | None:
    return None if error_type is None else _of_error(error_type, message or "")


def _reasons_and_outcomes(ends: "pa.Table") -> tuple[list[str | None], list[str | None]]:
    """Only endings that do not say all by their kind are looked at one by one."""
    import pyarrow.compute as pc

    outcomes: list[str | None] = ends["kind"].to_pylist()
    reasons: list[str | None] = [None] * len(outcomes)
    has_begun = pc.is_valid(ends["started_at"])
    for row, kind in enumerate(outcomes):
        if kind is not None and kind not in _BY_KIND_ALONE:
            data = _decode(ends["data"][row].as_py())
            reasons[row] = data.reason if isinstance(data.reason, str) else None
            outcomes[row] = _outcome(kind, has_begun[row].as_py(), data)
    return reasons, outcomes


def _outcome(kind: str, has_begun: bool, data: _Data) -> str | None:
    """None for an event that ended no attempt."""
    match kind:
        case EventKind.FAILED:
            return "failed"
        case EventKind.REVOKED if has_begun:
            return "cancelled"
        case EventKind.REQUEUED if has_begun:
            return "lost" if _is_lost(data) else "interrupted"
        case _:
            return None


def _is_lost(data: _Data) -> bool:
    """Whether the process that ran the attempt died, or its lease expired."""
    reason = data.reason if isinstance(data.reason, str) else ""
    return data.died is True or reason == "lease-expired" or reason.startswith(_OLD_REASON_OF_DEATH)


def _ready_at(ends: "pa.Table") -> "pa.ChunkedArray":
    """When each task was enqueued, or was due if that was later."""
    import pyarrow as pa
    import pyarrow.compute as pc

    delayed = pc.indices_nonzero(pc.match_substring(ends["data"], '"dueAt"')).to_pylist()
    if not delayed:
        return ends["enqueued_at"]
    moments = ends["enqueued_at"].cast(pa.int64()).to_pylist()
    for row in delayed:
        moments[row] = _later(moments[row], _decode(ends["data"][row].as_py()).due_at)
    return pa.chunked_array([pa.array(moments, pa.int64())])


def _later(enqueued_at: int, due: Any) -> int:
    try:
        since = datetime.fromisoformat(due) - _EPOCH
    except (ValueError, TypeError, OverflowError):  # no text, no time zone, or a moment that Python cannot represent
        return enqueued_at
    return max(enqueued_at, since // timedelta(microseconds=1))


def _fingerprints(ends: "pa.Table") -> list[str | None]:
    kinds, messages = ends["error_type"], ends["error_message"]
    if kinds.null_count == len(ends):
        return [None] * len(ends)
    pairs = zip(kinds.to_pylist(), messages.to_pylist(), strict=True)
    return [fingerprint_or_none(kind, message) for kind, message in pairs]


def _seconds(start: "pa.ChunkedArray", end: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Never negative: the start comes from the worker's clock, the end from the store's."""
    import pyarrow as pa
    import pyarrow.compute as pc

    micros = pc.subtract(end.cast(pa.int64()), start.cast(pa.int64()))
    return pc.divide(pc.max_element_wise(micros.cast(pa.float64()), 0.0, skip_nulls=False), 1e6)
