"""The sun by a second method, as a reference that shares nothing with astral: its position by the low-precision formulas of
the Astronomical Almanac (to 0.01 degrees until 2050), its altitude by sidereal time, its rising and setting by search."""

from datetime import UTC, date, datetime, timedelta
from math import asin, atan2, cos, degrees, radians, sin

J2000 = datetime(2000, 1, 1, 12, tzinfo=UTC)
ALTITUDES = {"sunrise": -0.833, "sunset": -0.833, "dawn": -6.0, "dusk": -6.0}  # degrees; twilight is civil


def event(name: str, day: date, latitude: float, longitude: float) -> datetime:
    """Return when the event happens on this day of the place's own solar time."""
    midday = datetime(day.year, day.month, day.day, 12, tzinfo=UTC) - timedelta(minutes=4 * longitude)
    noon = midday - timedelta(minutes=4 * _hour_angle(midday, longitude))
    if name == "noon":
        return noon
    direction = 1 if name in ("sunset", "dusk") else -1
    above, below = noon, noon + direction * timedelta(hours=12)
    while abs(below - above) > timedelta(seconds=1):
        middle = above + (below - above) / 2
        if _altitude(middle, latitude, longitude) > ALTITUDES[name]:
            above = middle
        else:
            below = middle
    return above


def _altitude(moment: datetime, latitude: float, longitude: float) -> float:
    """Degrees above the horizon."""
    _, declination = _position(moment)
    north, angle = radians(latitude), radians(_hour_angle(moment, longitude))
    return degrees(asin(sin(north) * sin(declination) + cos(north) * cos(declination) * cos(angle)))


def _hour_angle(moment: datetime, longitude: float) -> float:
    """Degrees that the sun has turned since it was highest, from -180 to 180."""
    right_ascension, _ = _position(moment)
    sidereal = 15 * (18.697374558 + 24.06570982441908 * _days(moment)) + longitude
    return (sidereal - degrees(right_ascension) + 180) % 360 - 180


def _position(moment: datetime) -> tuple[float, float]:
    """Right ascension and declination in radians."""
    days = _days(moment)
    anomaly = radians(357.528 + 0.9856003 * days)
    longitude = radians(280.460 + 0.9856474 * days + 1.915 * sin(anomaly) + 0.020 * sin(2 * anomaly))
    obliquity = radians(23.439 - 0.0000004 * days)
    return atan2(cos(obliquity) * sin(longitude), cos(longitude)), asin(sin(obliquity) * sin(longitude))


def _days(moment: datetime) -> float:
    return (moment - J2000) / timedelta(days=1)
