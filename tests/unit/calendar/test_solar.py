"""Solar entries against published times, and where the sun stays up or down."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from stem.calendar.parse import parse
from stem.calendar.solar import EVENTS, Solar, SolarEvent
from stem.core.errors import InvalidSchedule
from unit.calendar import almanac
from unit.calendar.instants import at, following

TOLERANCE = timedelta(minutes=2)
LONDON = (51.5074, -0.1278, "Europe/London")
NEW_YORK = (40.7128, -74.0060, "America/New_York")
SYDNEY = (-33.8688, 151.2093, "Australia/Sydney")
BERLIN = (52.5200, 13.4050, "Europe/Berlin")
SINGAPORE = (1.3521, 103.8198, "Asia/Singapore")
DECORAH = (43.3033, -91.7857, "America/Chicago")

# Sunrise and sunset at solstices and an equinox of 2024 in local time, to the minute, as calendars of these cities print them;
# a test below holds them against the second method.
# Decorah, Iowa, with civil twilight: the table of Luther College's weather page for 15 September, after the US Naval Observatory.
PUBLISHED: list[tuple[tuple[float, float, str], str, dict[SolarEvent, str]]] = [
    (LONDON, "2024-06-21", {"sunrise": "04:43", "sunset": "21:21"}),
    (LONDON, "2024-12-21", {"sunrise": "08:03", "sunset": "15:53"}),
    (NEW_YORK, "2024-06-21", {"sunrise": "05:25", "sunset": "20:30"}),
    (NEW_YORK, "2024-12-21", {"sunrise": "07:16", "sunset": "16:31"}),
    (SYDNEY, "2024-06-21", {"sunrise": "07:00", "sunset": "16:54"}),
    (SYDNEY, "2024-12-22", {"sunrise": "05:41", "sunset": "20:05"}),
    (BERLIN, "2024-06-21", {"sunrise": "04:43", "sunset": "21:33"}),
    (BERLIN, "2024-12-21", {"sunrise": "08:15", "sunset": "15:54"}),
    (SINGAPORE, "2024-03-20", {"sunrise": "07:09", "noon": "13:12", "sunset": "19:15"}),
    (DECORAH, "2024-09-15", {"dawn": "06:19", "sunrise": "06:47", "sunset": "19:16", "dusk": "19:45"}),
]


@pytest.mark.parametrize(("place", "day", "times"), PUBLISHED, ids=lambda value: str(value))
def test_within_two_minutes_of_published_times(
    place: tuple[float, float, str], day: str, times: dict[SolarEvent, str]
) -> None:
    latitude, longitude, time_zone = place
    for event, time in times.items():
        found = Solar(event, latitude, longitude).next_after(at(f"{day}T00:00", time_zone))
        assert found is not None
        assert abs(found - at(f"{day}T{time}", time_zone)) <= TOLERANCE, (event, found.astimezone(ZoneInfo(time_zone)))


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("place", [LONDON, NEW_YORK, SYDNEY, BERLIN, SINGAPORE], ids=lambda place: place[2])
def test_within_a_minute_of_a_second_method_all_year(event: SolarEvent, place: tuple[float, float, str]) -> None:
    latitude, longitude, _ = place
    for number in range(0, 366, 3):
        day = date(2024, 1, 1) + timedelta(days=number)
        expected = almanac.event(event, day, latitude, longitude)
        found = Solar(event, latitude, longitude).next_after(expected - timedelta(hours=6))
        assert found is not None and abs(found - expected) <= timedelta(minutes=1), (day, found, expected)


@pytest.mark.parametrize(("place", "day", "times"), PUBLISHED, ids=lambda value: str(value))
def test_the_published_times_agree_with_the_second_method(
    place: tuple[float, float, str], day: str, times: dict[SolarEvent, str]
) -> None:
    latitude, longitude, time_zone = place
    for event, time in times.items():
        expected = almanac.event(event, date.fromisoformat(day), latitude, longitude)
        assert abs(expected - at(f"{day}T{time}", time_zone)) <= TOLERANCE, event


def test_a_day_without_the_event_is_skipped() -> None:
    """Tromsø has midnight sun from late May to late July, and no sunrise from late November to mid-January."""
    sunset, sunrise = Solar("sunset", 69.65, 18.96), Solar("sunrise", 69.65, 18.96)
    assert (sunset.next_after(at("2026-06-01T00:00")) or at("2000-01-01")).month == 7
    after_the_night = sunrise.next_after(at("2026-12-01T00:00"))
    assert after_the_night is not None and (after_the_night.year, after_the_night.month) == (2027, 1)


@pytest.mark.parametrize("longitude", [-180.0, -179.9, -120.0, 0.0, 100.0, 179.9, 180.0])
@pytest.mark.parametrize("latitude", [-75.0, -66.0, -30.0, 0.0, 52.0, 65.7, 69.65, 80.0])
def test_the_sun_rises_at_most_once_in_twenty_hours_wherever_one_stands(latitude: float, longitude: float) -> None:
    for event in EVENTS:
        found = following(Solar(event, latitude, longitude), datetime(2026, 1, 1, tzinfo=UTC), 120)
        gaps = [later - earlier for earlier, later in pairwise(found)]
        assert min(gaps) > timedelta(hours=20), (event, min(gaps))


def test_between_the_polar_circles_there_is_an_event_each_day() -> None:
    for event in EVENTS:
        found = following(Solar(event, 48.0, -122.0), datetime(2026, 1, 1, tzinfo=UTC), 365)
        assert found[-1] - found[0] < timedelta(days=365)


@pytest.mark.parametrize(
    ("event", "latitude", "longitude", "sentence"),
    [
        ("sunset", None, None, "needs a place"),
        ("sunset", 91.0, 0.0, "-90 to 90"),
        ("sunset", float("nan"), 0.0, "-90 to 90"),
        ("sunset", 0.0, 181.0, "-180 to 180"),
    ],
)
def test_a_place_off_the_globe_is_refused(
    event: str, latitude: float | None, longitude: float | None, sentence: str
) -> None:
    with pytest.raises(InvalidSchedule, match=sentence):
        parse(event, latitude=latitude, longitude=longitude)
