"""Read and write durations (`10`, `250ms`, `10s`, `5m`, `2h`, `1d`) and moments (ISO 8601 with a time zone)."""

import re
from datetime import UTC, datetime, timedelta

import click

from stem.core.settings import kinds
from stem.core.settings.kinds import span as span

_LONGEST_SECONDS = 100 * 365 * 86400  # past it a moment no longer fits the calendar of every store


class DurationType(click.ParamType[float]):
    """Seconds."""

    name = "duration"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not isinstance(value, str):
            return value
        seconds = duration(value)
        if seconds is None:
            self.fail(f"{value!r} is not a duration; write 10, 10s, 5m, 2h or 1d", param, ctx)
        return seconds


class MomentType(click.ParamType[datetime]):
    name = "moment"

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not an ISO 8601 moment; write it like 2030-01-31T09:00:00Z", param, ctx)
        if moment.tzinfo is None:
            self.fail(f"{value!r} has no time zone; add Z or an offset such as +02:00", param, ctx)
        try:
            return moment.astimezone(UTC)
        except OverflowError:
            self.fail(f"{value!r} is beyond the calendar", param, ctx)


class DurationOrMomentType(click.ParamType[float | datetime]):
    """Seconds or a moment; the option decides what seconds count from."""

    name = "duration|moment"

    def convert(
        self, value: str | float | datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | datetime:
        if not isinstance(value, str):
            return value
        seconds = duration(value)
        if seconds is not None:
            return seconds
        if not re.match(r"\d{4}-?\d", value):
            self.fail(f"{value!r} is neither a duration like 1h nor a moment like 2030-01-31T09:00:00Z", param, ctx)
        return MOMENT.convert(value, param, ctx)


DURATION = DurationType()
MOMENT = MomentType()
DURATION_OR_MOMENT = DurationOrMomentType()


def duration(text: str) -> float | None:
    """Return the seconds, or None if the text is no duration that every store's calendar can hold."""
    seconds = kinds.duration(text)
    return seconds if seconds is not None and seconds <= _LONGEST_SECONDS else None


def since(value: float | datetime | None, now_seconds: float) -> datetime | None:
    """Return the moment to start from: a duration counts back from the store's now."""
    if isinstance(value, float):
        return datetime.fromtimestamp(now_seconds, UTC) - timedelta(seconds=value)
    return value


def written(moment: datetime | None) -> str:
    """Write a moment as tables show it and options read it."""
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def age(moment: datetime | None, now_seconds: float) -> str:
    """Say how long ago in one unit: `12s ago`, `3m ago`; in the future `in 5m`."""
    if moment is None:
        return ""
    seconds = now_seconds - moment.timestamp()
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"
