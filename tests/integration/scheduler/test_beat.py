"""Schedulers on real stores: each instant once, whoever fires it; what code, operators and strangers write."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Thread
from typing import Any

import msgspec
import pytest

from stem import Settings, Stem
from stem.core.errors import SignatureInvalid
from stem.core.lifecycle import State
from stem.core.record import TaskFilter
from stem.scheduler.beat import LEADER_LOCK, Beat
from stem.scheduler.entries import run_now, task_id_of
from support.scheduling import due, now, stored, tasks, writer
from support.until import until

KEYS = "k1:hmac-sha256:" + "A" * 43 + "="
PAST = timedelta(seconds=20)


def test_what_is_due_is_enqueued_with_its_schedule_in_its_meta(app: Stem) -> None:
    instant = due(app, args={"text": "hello"}, options={"queue": "mail", "priority": 7})
    assert Beat(app, "a").tick() == 1
    (record,) = app.store.results.page(TaskFilter(), limit=10).items
    assert (record.name, record.queue, record.priority, record.state) == ("note", "mail", 7, State.QUEUED)
    assert record.meta["schedule"] == "it"
    found = app.store.schedules.get("it")
    assert found is not None and found.state.run_count == 1 and found.state.last_task_id == record.id
    assert found.state.history[-1].instant == instant
    assert found.state.instant is not None and found.state.instant > now(app)
    assert Beat(app, "b").tick() == 0


def test_schedulers_that_all_believe_to_lead_enqueue_an_instant_once(app: Stem) -> None:
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


def test_one_leads_and_another_follows_when_it_stops(app: Stem) -> None:
    first, second = Beat(app, "a"), Beat(app, "b")
    first.tick()
    second.tick()
    assert (first.is_leader, second.is_leader) == (True, False)
    first._step_down()
    second.tick()
    assert second.is_leader


def test_case_17_nobody_waits_for_the_lease_of_a_leader_that_has_died(app: Stem) -> None:
    assert app.store.locks.acquire(LEADER_LOCK, owner="died", ttl_seconds=600)
    with running(app) as beat:
        due(app)
        until(lambda: beat.fired == 1, seconds=20)
        assert not beat.is_leader
    assert stored(app).state.history[-1].at - stored(app).state.history[-1].instant < timedelta(seconds=5)


def test_a_follower_leaves_to_the_leader_what_is_only_just_due(app: Stem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stem.scheduler.beat.OVERDUE_SECONDS", 60.0)
    assert app.store.locks.acquire(LEADER_LOCK, owner="leads", ttl_seconds=600)
    due(app)
    assert Beat(app, "b").tick() == 0


def test_a_running_scheduler_fires_an_entry_that_is_added_meanwhile(app: Stem) -> None:
    with running(app):
        due(app)
        handle = app.handle(task_id_of(app.settings.namespace, "it", _last_instant(app)))
        assert handle.status().state is State.QUEUED


@contextmanager
def running(app: Stem) -> Iterator[Beat]:
    beat = Beat(app, "a")
    beat.start()
    try:
        yield beat
    finally:
        beat.stop()


def _last_instant(app: Stem) -> datetime:
    def ran() -> datetime | None:
        found = app.store.schedules.get("it")
        return found.state.history[-1].instant if found is not None and found.state.history else None

    return until(ran)


def test_an_entry_whose_task_has_vanished_is_enqueued_for_the_dead_letters(app: Stem) -> None:
    due(app, task="gone.with.the.code")
    assert Beat(app, "a").tick() == 1
    assert Beat(app, "a").tick() == 0


def test_arguments_that_no_longer_fit_are_in_the_history_and_the_entry_goes_on(app: Stem) -> None:
    due(app, args={"colour": "red"})
    due(app, "other")
    assert Beat(app, "a").tick() == 1
    found = app.store.schedules.get("it")
    assert found is not None and "colour" in found.state.history[-1].reason
    assert found.state.instant is not None and found.state.instant > now(app)


def test_an_unreadable_calendar_stops_only_its_own_entry(app: Stem) -> None:
    due(app, "broken", spec="0 0 31 2 *")
    due(app, "fine")
    beat = Beat(app, "a")
    assert beat.tick() == 1 and beat.tick() == 0
    found = app.store.schedules.get("broken")
    assert found is not None and found.state.instant is None and "never comes" in found.state.history[-1].reason


@pytest.mark.parametrize("options", [{"meta": [1]}, {"colour": "red"}, {"priority": "high"}, {"headers": 7}])
def test_an_entry_that_somebody_wrote_wrongly_stops_only_itself(app: Stem, options: dict[str, Any]) -> None:
    due(app, "wrong", options=options)
    due(app, "fine")
    beat = Beat(app, "a")
    assert beat.tick() == 1 and beat.tick() == 0
    found = app.store.schedules.get("wrong")
    assert found is not None and found.state.history[-1].reason


def test_a_run_is_cancelled_for_the_next_one(app: Stem) -> None:
    instant = due(app, spec="every 1 second", overlap="cancel-other")
    beat = Beat(app, "a")
    assert beat.tick() == 1
    first = app.handle(task_id_of(app.settings.namespace, "it", _last_instant(app)))
    until(lambda: beat.tick() == 1)
    assert first.status().state is State.CANCELLED
    assert _last_instant(app) > instant


def test_the_store_set_back_silences_nothing_and_repeats_nothing(app: Stem) -> None:
    due(app)
    beat = Beat(app, "a")
    beat.tick()
    found = app.store.schedules.get("it")
    assert found is not None
    future = now(app) + timedelta(days=900)
    state = msgspec.structs.replace(found.state, last_run_at=future, instant=future, due_at=future)
    app.store.schedules.write(found.entry, state, revision=found.revision)
    Beat(app, "a").tick()  # another leads: nothing happens
    beat._seen_at = None
    beat.tick()
    found = app.store.schedules.get("it")
    assert found is not None and found.state.instant is not None
    assert found.state.instant < now(app) + timedelta(hours=1)
    assert len(tasks(app)) == 1


# Keys


def test_with_keys_an_entry_that_nobody_signed_enqueues_nothing(store_url: str, namespace: str) -> None:
    settings = Settings(broker_url=store_url, namespace=namespace, signing_keys=KEYS, timeout_seconds=30.0)
    with Stem(settings=settings) as app, Stem(settings=msgspec.structs.replace(settings, signing_keys="")) as stranger:
        due(stranger, "planted")
        due(app, "ours")
        assert Beat(app, "a").tick() == 1
        planted = app.store.schedules.get("planted")
        assert planted is not None and "not signed" in planted.state.history[-1].reason
        ours = app.store.schedules.get("ours")
        assert ours is not None
        changed = msgspec.structs.replace(ours.entry, args={"text": "changed by hand"})
        app.store.schedules.write(
            changed, msgspec.structs.replace(ours.state, due_at=now(app) - PAST), revision=ours.revision
        )
        assert Beat(app, "a").tick() == 0
        for act in (lambda: writer(app).change("ours", note="x"), lambda: run_now(app, "planted")):
            with pytest.raises(SignatureInvalid):
                act()
