"""Schedulers on real stores: each instant once, whoever fires it; what code, operators and strangers write."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import Any

import msgspec
import pytest

from stem import Route, Settings, Stem
from stem.contracts.schedules import ScheduleEntry, ScheduleState
from stem.core.errors import InvalidTask, SignatureInvalid
from stem.core.heartbeat import Heartbeat
from stem.core.lifecycle import State
from stem.core.record import TaskFilter
from stem.scheduler.beat import Beat
from stem.scheduler.declared import RETIRED, store_declared
from stem.scheduler.entries import EntryWriter, backfill, run_now, task_id_of
from support.until import until

KEYS = "k1:hmac-sha256:" + "A" * 43 + "="
PAST = timedelta(seconds=20)


@pytest.fixture
def app(store_url: str, namespace: str) -> Iterator[Stem]:
    with Stem(settings=Settings(broker_url=store_url, namespace=namespace, timeout_seconds=30.0)) as app:

        @app.task(name="note")
        def note(text: str = "") -> str:
            return text

        yield app


def writer(app: Stem) -> EntryWriter:
    return EntryWriter.of(app.store, app.settings)


def now(app: Stem) -> datetime:
    return datetime.fromtimestamp(app.store.upkeep.now(), UTC)


def due(app: Stem, entry_id: str = "it", **fields: Any) -> datetime:
    """Store an entry that has been due for a moment; its instant."""
    instant = now(app).replace(microsecond=0) - timedelta(seconds=1)
    spec = f"every 1 hour from {instant.isoformat()}"
    entry = ScheduleEntry(id=entry_id, **{"task": "note", "spec": spec, **fields})
    state = ScheduleState(instant=instant, due_at=instant)
    assert app.store.schedules.write(writer(app).sealed(entry), state, revision=0)
    return instant


def tasks(app: Stem) -> list[str]:
    return [record.id for record in app.store.results.page(TaskFilter(), limit=100).items]


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


def test_a_running_scheduler_fires_an_entry_that_is_added_meanwhile(app: Stem) -> None:
    beat = Beat(app, "a")
    beat.start()
    try:
        due(app)
        handle = app.handle(task_id_of(app.settings.namespace, "it", _last_instant(app)))
        assert handle.status().state is State.QUEUED
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


# Code and operators


def declared(app: Stem, *specs: str) -> list[ScheduleEntry]:
    return [ScheduleEntry(id=f"code-{number}", task="note", spec=spec) for number, spec in enumerate(specs)]


def test_a_change_at_run_time_is_kept_until_the_code_changes(app: Stem) -> None:
    store_declared(writer(app), declared(app, "0 2 * * *"), origin="shop:app")
    writer(app).change("code-0", spec="0 3 * * *")
    store_declared(writer(app), declared(app, "0 2 * * *"), origin="shop:app")
    assert _spec(app) == "0 3 * * *"
    store_declared(writer(app), declared(app, "0 4 * * *"), origin="shop:app")
    assert _spec(app) == "0 4 * * *"


def _spec(app: Stem) -> str:
    found = app.store.schedules.get("code-0")
    assert found is not None
    return found.entry.spec


def test_an_entry_that_left_the_code_is_retired_and_comes_back_with_it(app: Stem) -> None:
    store_declared(writer(app), declared(app, "0 2 * * *", "0 3 * * *"), origin="shop:app")
    store_declared(writer(app), declared(app, "0 2 * * *"), origin="shop:app")
    store_declared(writer(app), [], origin="other:app")
    found = {each.entry.id: each.entry for each in app.store.schedules.all()}
    assert found["code-0"].is_enabled
    assert (found["code-1"].is_enabled, found["code-1"].note) == (False, RETIRED)
    store_declared(writer(app), declared(app, "0 2 * * *", "0 3 * * *"), origin="shop:app")
    assert all(each.entry.is_enabled for each in app.store.schedules.all())


def test_an_edit_of_one_entry_moves_no_other(app: Stem) -> None:
    store_declared(writer(app), declared(app, "every 1 hour", "every 1 hour"), origin="shop:app")
    before = app.store.schedules.get("code-1")
    writer(app).change("code-0", spec="every 5 minutes")
    assert app.store.schedules.get("code-1") == before


def test_runs_and_their_last_time_outlive_disabling(app: Stem) -> None:
    due(app)
    Beat(app, "a").tick()
    writer(app).change("it", is_enabled=False)
    saved = writer(app).change("it", is_enabled=True)
    assert saved.state.run_count == 1 and saved.state.last_run_at is not None
    assert Beat(app, "a").tick() == 0


def test_a_run_by_hand_and_a_backfill(app: Stem) -> None:
    due(app, spec="every 1 minute")
    run_now(app, "it")
    end = now(app).replace(second=0, microsecond=0)
    period = (end - timedelta(minutes=9), end)
    assert len(list(backfill(app, "it", *period))) == 10
    assert list(backfill(app, "it", *period)) == []
    assert len(tasks(app)) == 11


def test_schedules_are_declared_above_tasks() -> None:
    with Stem("memory://declared") as app:

        @app.schedule("0 2 * * *", args={"text": "night"}, time_zone="Europe/Berlin", jitter="5m", overlap="skip")
        @app.task(name="report")
        def report(text: str) -> None: ...

        (entry,) = app.schedules
        assert (entry.id, entry.task, entry.args) == ("report", "report", {"text": "night"})
        assert (entry.time_zone, entry.jitter_seconds, entry.overlap) == ("Europe/Berlin", 300.0, "skip")
        with pytest.raises(InvalidTask, match="Two schedules have the id report"):
            app.schedule("0 3 * * *", args={"text": "x"})(report)
        with pytest.raises(InvalidTask, match="colour"):
            app.schedule("0 3 * * *", id="b", args={"text": "x", "colour": 1})(report)
        with pytest.raises(InvalidTask, match="belongs above"):
            app.schedule("0 3 * * *")(len)  # type: ignore[type-var]


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
