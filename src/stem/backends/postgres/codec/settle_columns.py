"""Encode endings as columns, and choose the statements that write them."""

from collections.abc import Sequence
from typing import Any

from stem.backends.postgres.codec.text_columns import column, json_text, numbers, texts, utf8
from stem.core.delivery import Ending
from stem.core.event import event_data
from stem.core.outcome import Block, Cancelled, Dead, Done, Requeue, Retry, Settlement
from stem.core.record import TaskError


def settle_columns(endings: Sequence[Ending]) -> tuple[str, list[str]]:
    """The function that writes these endings, and its columns."""
    if all(isinstance(ending.settlement, Done) and not ending.facts for ending in endings):
        return "settle_successes", done_columns(endings)
    return "settle_mixed", mixed_columns(endings)


def done_columns(endings: Sequence[Ending]) -> list[str]:
    return [
        column([each.lease.id for each in endings]),
        numbers([each.lease.fence for each in endings]),
        numbers([each.run_seconds for each in endings]),
        column([utf8(s.payload) if isinstance(s := each.settlement, Done) else None for each in endings]),
        column([_meta(each.meta) for each in endings]),
        column([_progress(each.meta) for each in endings]),
    ]


def mixed_columns(endings: Sequence[Ending]) -> list[str]:
    batch = [each.settlement for each in endings]
    return [
        *done_columns(endings),
        column([_kind(each) for each in batch]),
        numbers([each.delay_seconds if isinstance(each, Retry | Requeue) else None for each in batch]),
        column([_error(each) for each in batch]),
        texts([each.reason if isinstance(each, Dead) else None for each in batch]),
        column([json_text(each.meta) if isinstance(each, Dead) else None for each in batch]),
        column([json_text(event_data(each.settlement, each.facts)) for each in endings]),
        texts([each.event if isinstance(each, Requeue) else None for each in batch]),
    ]


def blocked_columns(blocked: Sequence[tuple[str, Block]]) -> list[str]:
    """Tasks by id, and what they wait for."""
    return [
        column([id for id, _ in blocked]),
        column([",".join(dict.fromkeys(settlement.after)) for _, settlement in blocked]),
    ]


def _kind(settlement: Settlement) -> str:
    match settlement:
        case Done():
            return "D"
        case Retry():
            return "R"
        case Dead():
            return "X"
        case Requeue(throttled=True, died=True):
            return "B"
        case Requeue(throttled=True):
            return "T"
        case Requeue(died=True):
            return "F"
        case Requeue():
            return "Q"
        case Block():
            return "W"
        case Cancelled(passes=True):
            return "P"
        case Cancelled():
            return "C"


def _error(settlement: Settlement) -> str | None:
    match settlement:
        case Retry(error=error) | Dead(error=error):
            return json_text(error)
        case Cancelled(reason):
            return json_text(TaskError("Cancelled", reason))
        case _:
            return None


def _meta(meta: dict[str, Any]) -> str | None:
    """Without progress, which has a column of its own."""
    if "progress" in meta:
        meta = {key: value for key, value in meta.items() if key != "progress"}
    return json_text(meta) if meta else None


def _progress(meta: dict[str, Any]) -> str | None:
    return json_text(meta["progress"]) if "progress" in meta else None
