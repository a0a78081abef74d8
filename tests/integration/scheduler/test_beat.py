"""Schedulers on real stores: each instant once, whoever fires it; what code, operators and strangers write."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from stem import Route, Settings, Stem
from stem.core.delivery import DeadFilter
from stem.core.errors import SignatureInvalid
from stem.core.heartbeat import Heartbeat
from stem.core.lifecycle import State
from stem.core.record import TaskFilter
from stem.scheduler.beat import Beat
from stem.scheduler.entries import run_now, task_id_of
from stem.worker.supervisor import Worker
from support.client.schedules import due, now, running, stored, tasks, writer
from support.until import until

KEYS = "k1:hmac-sha256:" + "A" * 43 + "="
PAST = timedelta(seconds=20)


def test_a_due_entry_is_enqueued_with_its_schedule_in_its_meta(app: Stem) -> None:
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


def test_a_running_scheduler_fires_an_entry_that_is_added_meanwhile(app: Stem) -> None:
    with running(app):
        due(app)
        handle = app.handle(task_id_of(app.settings.namespace, "it", _last_instant(app)))
        assert handle.status().state is State.QUEUED


def _last_instant(app: Stem) -> datetime:
    def ran() -> datetime | None:
        found = app.store.schedules.get("it")
        return found.state.history[-1].instant if found is not None and found.state.history else None

    return until(ran)


def test_case_31_an_entry_whose_task_has_vanished_shows_it_and_its_calls_become_dead_letters(app: Stem) -> None:
    due(app, task="gone.with.the.code")
    beat = Beat(app, "a")
    assert beat.tick() == 1 and beat.tick() == 0
    run = stored(app).state.history[-1]
    assert (run.reason, stored(app).entry.is_enabled) == ("the app has no task gone.with.the.code", True)
    assert stored(app).state.instant is not None
    with Worker(app, in_process=True):
        until(lambda: app.store.deadletters.page(DeadFilter(), limit=10).items, seconds=30)
    (letter,) = app.store.deadletters.page(DeadFilter(), limit=10).items
    assert letter.envelope.id == run.task_id


def test_arguments_that_no_longer_fit_are_in_the_history_and_the_entry_goes_on(app: Stem) -> None:
    due(app, args={"colour": "red"})
    due(app, "other")
    assert Beat(app, "a").tick() == 1
    found = app.store.schedules.get("it")
    assert found is not None and "colour" in found.state.history[-1].reason
    assert found.state.instant is not None and found.state.instant > now(app)


def test_case_28_an_unreadable_calendar_stops_only_its_own_entry(app: Stem) -> None:
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


def test_case_29_a_run_is_cancelled_for_the_next_one(app: Stem) -> None:
    instant = due(app, spec="every 1 second", overlap="cancel-other")
    beat = Beat(app, "a")
    assert beat.tick() == 1
    first = app.handle(task_id_of(app.settings.namespace, "it", _last_instant(app)))
    until(lambda: beat.tick() == 1)
    assert first.status().state is State.CANCELLED
    assert _last_instant(app) > instant


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


def test_a_schedule_follows_the_routes_and_its_own_options_count_before_them(store_url: str, namespace: str) -> None:
    settings = Settings(broker_url=store_url, namespace=namespace, timeout_seconds=30.0)
    with Stem(settings=settings, routes=[Route("note", queue="routed", priority=8)]) as app:
        app.task(name="note")(_nothing)
        due(app, "a")
        due(app, "b", options={"queue": "mine"})
        assert Beat(app, "a").tick() == 2
        records = app.store.results.get(tasks(app)).values()
        assert sorted((record.queue, record.priority) for record in records) == [("mine", 8), ("routed", 8)]


def test_a_broadcast_is_scheduled_for_each_live_worker_and_waits_for_the_next_instant_without_any(
    store_url: str, namespace: str
) -> None:
    settings = Settings(broker_url=store_url, namespace=namespace, timeout_seconds=30.0)
    with Stem(settings=settings, routes=[Route("note", broadcast=True)]) as app:
        app.task(name="note")(_nothing)
        beat = Beat(app, "a")
        due(app)
        assert beat.tick() == 0
        found = app.store.schedules.get("it")
        assert (
            found is not None and found.state.due_at is not None and "No live worker" in found.state.history[-1].reason
        )
        for worker in ("w1", "w2"):
            app.store.heartbeats.beat(heartbeat(worker, namespace), ttl_seconds=600)
        due(app, "other")
        assert beat.tick() == 2
        assert sorted(record.queue for record in app.store.results.get(tasks(app)).values()) == [
            "worker.w1",
            "worker.w2",
        ]
        assert run_now(app, "other").endswith(".w1") and len(tasks(app)) == 4


def heartbeat(worker: str, namespace: str) -> Heartbeat:
    return Heartbeat(
        worker_id=worker,
        namespace=namespace,
        host="h",
        pid=1,
        uptime_seconds=1.0,
        concurrency=1,
        in_flight=0,
        queues=["default"],
    )


def _nothing() -> None: ...
