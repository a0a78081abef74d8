"""The store's clock is set back or forward, or nobody runs for a while."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest

from stem import Stem
from stem.contracts.schedules import ScheduleEntry
from stem.core.record import TaskFilter
from stem.runtime.clock import FakeClock
from stem.scheduler.beat import Beat
from support.client.manual_clock import clocked
from support.client.schedules import now, stored, writer

MINUTE = 60.0
HOUR = 3600.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Stem]:
    with clocked(request.param, tmp_path, clock) as app:
        yield app


def every_minute(app: Stem, misfire: Literal["skip", "once", "all"] = "once") -> None:
    assert writer(app).save(ScheduleEntry(id="it", task="note", spec="every 1 minute", misfire=misfire), None)


def pass_time(app: Stem, clock: FakeClock, beat: Beat, minutes: int) -> None:
    for _ in range(minutes):
        clock.advance(MINUTE)
        beat.tick()


def ran(app: Stem) -> Counter[str]:
    """How many tasks there are of each instant."""
    return Counter(record.meta["scheduledFor"] for record in app.store.results.page(TaskFilter(), limit=10_000).items)


def test_case_20_a_clock_set_back_repeats_nothing_and_silences_nothing(app: Stem, clock: FakeClock) -> None:
    every_minute(app)
    beat = Beat(app, "a")
    beat.tick()
    pass_time(app, clock, beat, 10)
    assert len(ran(app)) == 10
    clock.advance(-HOUR)
    beat.tick()
    upcoming = stored(app).state.instant
    assert upcoming is not None and timedelta(0) < upcoming - now(app) <= timedelta(minutes=1)
    pass_time(app, clock, beat, 70)
    # Instants of the hour that is lived twice: those that had run are not repeated, the others run for the first time.
    assert set(ran(app).values()) == {1}
    assert len(ran(app)) == 70


def test_case_20_another_leader_after_the_clock_was_set_back(app: Stem, clock: FakeClock) -> None:
    every_minute(app)
    first = Beat(app, "a")
    pass_time(app, clock, first, 3)
    first._step_down()
    clock.advance(-900 * 86_400)
    second = Beat(app, "b")
    second.tick()
    pass_time(app, clock, second, 3)
    assert len(ran(app)) == 6 and set(ran(app).values()) == {1}


@pytest.mark.parametrize(("misfire", "count"), [("skip", 0), ("once", 1), ("all", 720)])
def test_case_21_twelve_hours_that_pass_at_once_are_one_run_or_none_by_the_policy(
    app: Stem, clock: FakeClock, misfire: Literal["skip", "once", "all"], count: int
) -> None:
    every_minute(app, misfire)
    beat = Beat(app, "a")
    beat.tick()
    clock.advance(12 * HOUR + (40 - clock() % MINUTE))
    for _ in range(3):
        beat.tick()
    assert len(ran(app)) == count
    pass_time(app, clock, beat, 1)
    # `skip` is for who wants no late run, and 40 s are late.
    assert len(ran(app)) == count + (0 if misfire == "skip" else 1)


def test_case_22_what_was_missed_while_nobody_ran_is_bounded_by_the_window(app: Stem, clock: FakeClock) -> None:
    entry = ScheduleEntry(
        id="it", task="note", spec="every 1 minute", misfire="all", misfire_window_seconds=10 * MINUTE
    )
    assert writer(app).save(entry, None)
    clock.advance(5 * HOUR)
    Beat(app, "a").tick()
    assert len(ran(app)) == 10


def test_case_23_a_first_start_and_enabling_again_run_nothing(app: Stem, clock: FakeClock) -> None:
    every_minute(app, "all")
    beat = Beat(app, "a")
    assert beat.tick() == 0
    writer(app).change("it", is_enabled=False)
    clock.advance(HOUR)
    assert beat.tick() == 0
    writer(app).change("it", is_enabled=True)
    assert beat.tick() == 0
    pass_time(app, clock, beat, 1)
    assert len(ran(app)) == 1
