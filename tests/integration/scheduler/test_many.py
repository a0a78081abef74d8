"""Several schedulers at once, one that is frozen or cut off, and ten thousand entries."""

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any

import msgspec
import pytest

from stem import Settings, Stem
from stem.contracts.schedules import ScheduleEntry, ScheduleState
from stem.core.errors import StoreUnavailable
from stem.scheduler.beat import LEADER_LOCK, Beat
from support.client.schedules import due, now, running, stored, tasks, writer
from support.stores.outages import PostgresFrozen, RedisFrozen
from support.until import until


def test_case_15_schedulers_that_all_believe_to_lead_enqueue_an_instant_once(
    app: Stem, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(5):
        due(app, f"entry-{number}")
    beats = [Beat(app, f"beat-{number}") for number in range(5)]
    for beat in beats:
        beat._lead = lambda: None  # type: ignore[method-assign]
        beat.is_leader = True
    threads = [Thread(target=beat.tick) for beat in beats]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tasks(app)) == 5
    assert sum(beat.fired for beat in beats) == 5
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("is_written", [False, True])
def test_case_16_a_failure_before_or_after_the_write_blocks_no_period_and_repeats_none(
    app: Stem, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    due(app)
    beat = Beat(app, "a")
    schedules = app.store.schedules
    write = schedules.write

    def failing(*args: Any, **named: Any) -> Any:
        if is_written:
            write(*args, **named)
        raise StoreUnavailable("The connection was lost; try again.")

    with monkeypatch.context() as patch:
        patch.setattr(schedules, "write", failing)
        with pytest.raises(StoreUnavailable):
            beat.tick()
    assert len(tasks(app)) == int(is_written)
    assert beat.tick() == int(not is_written)
    assert len(tasks(app)) == 1 and stored(app).state.run_count == 1


def test_case_17_a_frozen_leader_that_thaws_fires_nothing_late(app: Stem) -> None:
    due(app)
    frozen, other = Beat(app, "a"), Beat(app, "b")
    assert frozen.tick() == 1
    due(app, "second")
    (read,) = app.store.schedules.due(limit=10)  # what it has read before it froze
    frozen._step_down()
    assert other.tick() == 1
    frozen._fire(read)
    assert frozen.fired == 1 and len(tasks(app)) == 2


def test_case_17_nobody_waits_for_the_lease_of_a_leader_that_has_died(app: Stem) -> None:
    assert app.store.locks.acquire(LEADER_LOCK, owner="died", ttl_seconds=600)
    with running(app) as beat:
        due(app)
        until(lambda: beat.fired == 1, seconds=20)
        assert not beat.is_leader
    run = stored(app).state.history[-1]
    assert run.at - run.instant < timedelta(seconds=5)


def test_a_follower_leaves_to_the_leader_what_is_only_just_due(app: Stem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stem.scheduler.beat.OVERDUE_SECONDS", 60.0)
    assert app.store.locks.acquire(LEADER_LOCK, owner="leads", ttl_seconds=600)
    due(app)
    assert Beat(app, "b").tick() == 0


@pytest.mark.usefixtures("quick")
def test_case_18_an_exception_while_taking_the_lead_is_not_having_it(
    app: Stem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> int | None:
        raise StoreUnavailable("The store does not answer; try again.")

    with running(app) as beat:
        until(lambda: beat.is_leader)
        with monkeypatch.context() as patch:
            patch.setattr(app.store.locks, "acquire", refuse)
            until(lambda: not beat.is_leader)
            assert beat.is_alive
        until(lambda: beat.is_leader, seconds=30)


@pytest.mark.usefixtures("quick")
def test_case_19_a_leader_that_loses_the_lead_goes_on_as_a_follower(app: Stem) -> None:
    with running(app) as beat:
        until(lambda: beat.is_leader)
        app.store.locks.release(LEADER_LOCK, owner=beat._owner)
        taken = app.store.locks.acquire(LEADER_LOCK, owner="other", ttl_seconds=600)
        if taken is None:  # it was quicker
            app.store.locks.release(LEADER_LOCK, owner=beat._owner)
            assert app.store.locks.acquire(LEADER_LOCK, owner="other", ttl_seconds=600)
        until(lambda: not beat.is_leader)
        assert beat.is_alive
        app.store.locks.release(LEADER_LOCK, owner="other")
        until(lambda: beat.is_leader)


def test_one_leads_and_another_follows_when_it_stops(app: Stem) -> None:
    first, second = Beat(app, "a"), Beat(app, "b")
    first.tick()
    second.tick()
    assert (first.is_leader, second.is_leader) == (True, False)
    first._step_down()
    second.tick()
    assert second.is_leader


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROUND_SECONDS", "OVERDUE_SECONDS"):
        monkeypatch.setattr(f"stem.scheduler.beat.{name}", 0.2)


ENTRIES = 10_000


@pytest.mark.timeout(300)
def test_case_30_ten_thousand_entries_with_edits_cost_a_round_little(app: Stem) -> None:
    moment = now(app) + timedelta(hours=1)
    state = ScheduleState(instant=moment, due_at=moment)
    fill(app, state)
    due(app, "first")
    beat = Beat(app, "a")
    beat.tick()
    rounds = 5
    began = monotonic()
    for number in range(rounds):  # an edit, which wakes the scheduler, and an entry that is due
        writer(app).change(f"entry-{number}", note="edited")
        due(app, f"due-{number}")
        assert app.store.schedules.wait(timeout_seconds=5)
        assert beat.tick() == 1
    assert (monotonic() - began) / rounds < 1.0
    assert app.store.schedules.next_due_at() is not None


def fill(app: Stem, state: ScheduleState) -> None:
    entry = ScheduleEntry(id="it", task="note", spec="@hourly")

    def write(numbers: range) -> None:
        for number in numbers:
            app.store.schedules.write(msgspec.structs.replace(entry, id=f"entry-{number}"), state, revision=0)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, (range(start, ENTRIES, 4) for start in range(4))))


@pytest.mark.parametrize("kind", [RedisFrozen, PostgresFrozen])
def test_case_30_a_stalled_store_call_has_a_deadline(
    kind: type[RedisFrozen] | type[PostgresFrozen], tmp_path: Path
) -> None:
    outage = kind(tmp_path)
    try:
        with Stem(settings=Settings(broker_url=outage.url, timeout_seconds=1.0)) as app:
            beat = Beat(app, "a")
            beat.tick()
            due(app)
            outage.begin()
            began = monotonic()
            with pytest.raises(StoreUnavailable):
                beat.tick()
            assert monotonic() - began < 20
            outage.end()
            until(lambda: _fires(beat), seconds=30)
            assert len(tasks(app)) == 1
    finally:
        outage.close()


def _fires(beat: Beat) -> bool:
    try:
        beat.tick()
    except StoreUnavailable:
        return False
    return beat.fired == 1
