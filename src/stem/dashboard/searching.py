"""The filters of a task search, from the address of a page or from a form, and back."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from stem.core.errors import UsageError
from stem.core.lifecycle import State
from stem.core.settings import kinds
from stem.observe.tasks import TaskSearch

FIELDS = ("id", "state", "queue", "name", "meta", "error", "text", "since", "until")


def search_of(values: Mapping[str, str], now: float) -> TaskSearch:
    """Raises UsageError for a filter that cannot be read."""
    given = {name: values[name].strip() for name in FIELDS if values.get(name, "").strip()}
    return TaskSearch(
        id=given.get("id"),
        state=_state(given.get("state")),
        queue=given.get("queue"),
        name=given.get("name"),
        meta=_meta(given.get("meta")),
        error=given.get("error"),
        text=given.get("text"),
        since=_moment(given.get("since"), now),
        until=_moment(given.get("until"), now),
    )


def given_filters(values: Mapping[str, str]) -> dict[str, str]:
    return {name: values[name].strip() for name in FIELDS if values.get(name, "").strip()}


def _state(text: str | None) -> State | None:
    if text is None:
        return None
    try:
        return State(text)
    except ValueError as error:
        raise UsageError(f"There is no state {text!r}; choose one of {', '.join(State)}.") from error


def _meta(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    pairs = [part.partition("=") for part in re.split(r"[\s,]+", text)]
    if any(not sign or not key for key, sign, _ in pairs):
        raise UsageError(f"{text!r} is not key=value; write tenant=acme, for example.")
    return {key: _value(value) for key, _, value in pairs}


def _value(text: str) -> Any:
    """A number, true, false or null as JSON has them; all else is text."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return text
    return text if isinstance(found, list | dict | str) else found


def _moment(text: str | None, now: float) -> datetime | None:
    """`1h` ago, or an ISO moment; without a zone it is UTC."""
    if text is None:
        return None
    try:
        ago = kinds.duration(text)
        if ago is not None:
            return datetime.fromtimestamp(now, UTC) - timedelta(seconds=ago)
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{text!r} is no time; write 15m, 1h, 7d or 2030-01-31T09:00.") from error
