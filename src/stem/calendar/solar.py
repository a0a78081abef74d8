"""Solar entries: sunrise, noon, sunset and civil dawn and dusk at a place, computed by astral."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Literal, get_args

import msgspec
from astral import Observer
from astral.sun import dawn, dusk, noon, sunrise, sunset

from stem.core.errors import InvalidSchedule

SolarEvent = Literal["dawn", "sunrise", "noon", "sunset", "dusk"]
EVENTS: tuple[SolarEvent, ...] = get_args(SolarEvent)
_LONGEST_WAIT_DAYS = 366
_SOME_START = datetime(2000, 1, 1, tzinfo=UTC)
_MINUTES_PER_DEGREE = 4


class Solar(msgspec.Struct, frozen=True):
    """An entry that fires once per solar day at an event of the sun. Dawn and dusk are civil: the sun 6° below the horizon.

    A day on which the event does not happen (polar day and polar night) is skipped.
    Raises InvalidSchedule when it is made.
    """

    event: SolarEvent
    latitude: float
    longitude: float

    def __post_init__(self) -> None:
        _check(self.event, self.latitude, self.longitude)

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first instant after the moment, in UTC and whole seconds; None past the end of the calendar."""
        try:
            return _next_after(self.event, self.latitude, self.longitude, moment)
        except OverflowError:
            return None


@lru_cache(maxsize=1024)
def _check(event: str, latitude: float, longitude: float) -> None:
    if event not in EVENTS:
        raise InvalidSchedule(f"{event!r} is not an event of the sun; choose {', '.join(EVENTS[:-1])} or {EVENTS[-1]}.")
    if not -90 <= latitude <= 90:
        raise InvalidSchedule(f"Latitude {latitude} is off the globe; it is -90 to 90, north is positive.")
    if not -180 <= longitude <= 180:
        raise InvalidSchedule(f"Longitude {longitude} is off the globe; it is -180 to 180, east is positive.")
    if _next_after(event, latitude, longitude, _SOME_START) is None:
        raise InvalidSchedule(f"There is no {event} at latitude {latitude} all year; choose another place or 'noon'.")


def _next_after(event: str, latitude: float, longitude: float, moment: datetime) -> datetime | None:
    # By mean solar time noon is near 12:00 everywhere, so that no event drifts over midnight and is counted twice.
    place, solar_time = (
        Observer(latitude, longitude),
        timezone(timedelta(minutes=round(longitude * _MINUTES_PER_DEGREE))),
    )
    today = moment.astimezone(solar_time).date()
    for days in range(-1, _LONGEST_WAIT_DAYS + 1):
        instant = _instant(event, place, today + timedelta(days=days), solar_time)
        if instant is not None and instant > moment:
            return instant
    return None


def _instant(event: str, place: Observer, day: date, solar_time: tzinfo) -> datetime | None:
    """Return when the event happens on that day; None if it does not."""
    try:
        return _COMPUTE[event](place, day, tzinfo=solar_time).astimezone(UTC).replace(microsecond=0)
    except ValueError:  # the sun stays above or below
        return None


_COMPUTE: dict[str, Callable[..., datetime]] = {
    "dawn": dawn,
    "sunrise": sunrise,
    "noon": noon,
    "sunset": sunset,
    "dusk": dusk,
}
