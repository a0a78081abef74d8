"""Celery's schedules as Stem's expressions: crontab, intervals and the sun."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from stem.compat.celery.refused import NotBridged

_SUN = {
    "dawn_civil": "dawn",
    "sunrise": "sunrise",
    "solar_noon": "noon",
    "sunset": "sunset",
    "dusk_civil": "dusk",
}


class crontab:
    """A crontab entry; day of the month and weekday must both match, as in Celery."""

    def __init__(
        self,
        minute: Any = "*",
        hour: Any = "*",
        day_of_week: Any = "*",
        day_of_month: Any = "*",
        month_of_year: Any = "*",
        **_options: Any,
    ) -> None:
        self.minute = minute
        self.hour = hour
        self.day_of_week = day_of_week
        self.day_of_month = day_of_month
        self.month_of_year = month_of_year

    @property
    def spec(self) -> str:
        """The expression. `&` makes the weekday narrow the days, where cron would add them."""
        fields = (self.minute, self.hour, self.day_of_month, self.month_of_year)
        return f"{' '.join(map(_field, fields))} &{_field(self.day_of_week)}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, crontab) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.spec)

    def __repr__(self) -> str:
        return f"<crontab: {self.spec}>"


class schedule:
    """An interval."""

    def __init__(self, run_every: float | timedelta | None = None, relative: bool = False, **_options: Any) -> None:
        self.run_every = run_every if isinstance(run_every, timedelta) else timedelta(seconds=run_every or 0)
        self.relative = relative

    @property
    def spec(self) -> str:
        seconds = self.run_every.total_seconds()
        if seconds < 1 or seconds != int(seconds):
            raise NotBridged(
                f"A schedule of {seconds:g} s has no counterpart: Stem's intervals are whole seconds; choose 1 s or more, "
                "or let the task repeat itself with apply_async(countdown=…)."
            )
        return f"every {int(seconds)} seconds"

    def __repr__(self) -> str:
        return f"<freq: {self.run_every}>"


class solar:
    """An event of the sun at a place."""

    def __init__(self, event: str, lat: float, lon: float, **_options: Any) -> None:
        if event not in _SUN:
            raise NotBridged(f"The solar event {event!r} has no counterpart in Stem; there are {', '.join(_SUN)}.")
        self.event, self.lat, self.lon = event, lat, lon

    @property
    def spec(self) -> str:
        return _SUN[self.event]


def maybe_schedule(given: Any, relative: bool = False) -> Any:
    """A schedule of seconds, a timedelta, or itself."""
    return schedule(given, relative) if isinstance(given, int | float | timedelta) else given


def _field(value: Any) -> str:
    if isinstance(value, str):
        return value.replace(" ", "").lower()
    return ",".join(map(str, value)) if isinstance(value, Iterable) else str(value)
