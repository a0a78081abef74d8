"""Stored schedules: one compare-and-set writes entry, state and tasks; what is due is found by the store's clock."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from time import monotonic

import msgspec
import pytest

from conftest import OpenStore
from stem.backends import connect, split
from stem.contracts.schedules import Scheduled, ScheduleEntry, ScheduleState
from stem.contracts.store import Store
from stem.core.errors import StoreRefused
from stem.core.lifecycle import EventKind, State
from stem.core.settings.app import Settings
from support.builders import a_push
from support.client.schedules import break_schedule, rename_to_rubbish
from support.stores.calls import claim, depth
from support.stores.calls import ids as ids_of

IT = ScheduleEntry(id="it", task="demo.add", spec="0 2 * * *")


def now(store: Store) -> datetime:
    return datetime.fromtimestamp(store.upkeep.now(), UTC)


def at(store: Store, seconds: float) -> ScheduleState:
    """Due so many seconds from now."""
    moment = now(store) + timedelta(seconds=seconds)
    return ScheduleState(instant=moment, due_at=moment)


def put(store: Store, entry: ScheduleEntry = IT, seconds: float | None = 60.0) -> Scheduled:
    state = ScheduleState() if seconds is None else at(store, seconds)
    written = store.schedules.write(entry, state, revision=0)
    assert written is not None
    return written


def named(entry_id: str) -> ScheduleEntry:
    return msgspec.structs.replace(IT, id=entry_id)


def test_an_entry_is_kept_whole(store: Store, open_store: OpenStore) -> None:
    entry = ScheduleEntry(
        id="it", task="demo.add", spec="sunset", args={"a": 1, "b": [None, "ü"]}, options={"queue": "mail"},
        time_zone="Europe/Berlin", latitude=52.5, longitude=13.4, jitter_seconds=1.5, starts_at=now(store), max_runs=3,
        misfire="all", overlap="buffer-one", pause_after_failures=2, is_enabled=False, note="why", source="code",
        origin="shop:app", declared="abc", seal="k1:00",
    )  # fmt: skip
    written = put(store, entry)
    assert written.entry == msgspec.structs.replace(entry, version=1)
    assert store.schedules.get("it") == open_store().schedules.get("it") == written
    assert store.schedules.get("other") is None
    assert store.schedules.broken() == []


def test_entries_are_listed_by_id_and_each_namespace_has_its_own(store: Store, open_store: OpenStore) -> None:
    for entry_id in ("b", "c", "a"):
        put(store, named(entry_id))
    assert [each.entry.id for each in store.schedules.all()] == ["a", "b", "c"]
    assert open_store(f"{store.namespace}-other").schedules.all() == []


def test_a_write_with_an_old_revision_changes_nothing(store: Store) -> None:
    first = put(store)
    second = store.schedules.write(first.entry, at(store, 120), revision=first.revision)
    assert second is not None and second.revision > first.revision
    for stale in (first.revision, 0):
        refused = store.schedules.write(first.entry, at(store, 1), revision=stale, pushes=[a_push("a")])
        assert refused is None
    assert store.schedules.get("it") == second
    assert store.results.get(["a"]) == {} and depth(store).ready == 0


def test_an_entry_that_is_gone_is_not_written_again_by_who_still_knows_it(store: Store) -> None:
    first = put(store)
    assert store.schedules.delete("it") and not store.schedules.delete("it")
    assert store.schedules.write(IT, ScheduleState(), revision=first.revision) is None
    assert put(store).revision > first.revision


def test_the_version_grows_with_the_entry_and_not_with_its_state(store: Store) -> None:
    first = put(store)
    fired = store.schedules.write(first.entry, at(store, 120), revision=first.revision)
    assert fired is not None and fired.entry.version == 1
    edited = store.schedules.write(
        msgspec.structs.replace(fired.entry, spec="@daily"), fired.state, revision=fired.revision
    )
    assert edited is not None and edited.entry.version == 2


def test_another_json_of_equal_python_values_is_a_new_version(store: Store) -> None:
    first = put(store, msgspec.structs.replace(IT, args={"a": 1, "b": 2}))
    assert first.entry.version == 1
    for number, args in enumerate([{"a": True, "b": 2}, {"a": 1.0, "b": 2}, {"b": 2, "a": 1.0}, {"a": 1, "b": 2}]):
        found = store.schedules.get("it")
        assert found is not None
        changed = msgspec.structs.replace(found.entry, args=args)
        written = store.schedules.write(changed, found.state, revision=found.revision)
        assert written is not None and written.entry.version == [2, 3, 3, 4][number]


def test_case_16_tasks_are_pushed_with_the_state(store: Store) -> None:
    first = put(store, seconds=-1)
    pushes = [a_push("a", queue="default"), a_push("b", queue="default")]
    assert store.schedules.write(first.entry, at(store, 60), revision=first.revision, pushes=pushes)
    assert [each.state for each in store.results.get(["a", "b"]).values()] == [State.QUEUED] * 2
    events = store.events.read(None, limit=10)
    assert sorted(event.kind for event in events) == [EventKind.ENQUEUED] * 2 + [EventKind.SCHEDULED] * 2
    for task_id in ("a", "b"):
        enqueued, scheduled = (event for event in events if event.task_id == task_id)
        assert (enqueued.kind, scheduled.kind) == (EventKind.ENQUEUED, EventKind.SCHEDULED)
        assert scheduled.enqueued_at == enqueued.at == store.results.get([task_id])[task_id].enqueued_at
        assert (scheduled.name, scheduled.queue, scheduled.data) == ("demo.add", "default", {"schedule": "it"})
    assert ids_of(claim(store, limit=5)) == ["a", "b"]


def test_a_task_that_is_known_is_not_pushed_again(store: Store) -> None:
    store.broker.push([a_push("a", queue="default")])
    first = put(store)
    pushes = [a_push("a", queue="default"), a_push("b", queue="default")]
    assert store.schedules.write(first.entry, at(store, 60), revision=first.revision, pushes=pushes)
    assert depth(store).ready == 2
    told = [(event.task_id, event.kind) for event in store.events.read(None, limit=10)]
    assert told == [("a", EventKind.ENQUEUED), ("b", EventKind.ENQUEUED), ("b", EventKind.SCHEDULED)]


def test_the_event_names_the_entry_the_instant_and_the_tenant(store: Store) -> None:
    first = put(store)
    call = a_push("a", headers={"tenant": "acme"}, meta={"schedule": "it", "scheduledFor": "2030-01-31T09:00:00+00:00"})
    assert store.schedules.write(first.entry, at(store, 60), revision=first.revision, pushes=[call])
    told = store.events.read(None, limit=10)[-1]
    assert told.data == {"schedule": "it", "scheduledFor": "2030-01-31T09:00:00+00:00", "tenant": "acme"}


def test_due_entries_come_earliest_first_enabled_or_not(store: Store) -> None:
    put(store, named("later"), 60)
    put(store, named("never"), None)
    put(store, named("second"), -1)
    put(store, msgspec.structs.replace(named("first"), is_enabled=False), -2)
    assert [each.entry.id for each in store.schedules.due(limit=10)] == ["first", "second"]
    assert [each.entry.id for each in store.schedules.due(limit=1)] == ["first"]
    first = store.schedules.get("first")
    assert first is not None and store.schedules.next_due_at() == first.state.due_at


def test_without_entries_nothing_is_due(store: Store) -> None:
    put(store, seconds=None)
    assert store.schedules.due(limit=10) == [] and store.schedules.next_due_at() is None


def test_case_15_of_many_that_fire_an_instant_one_succeeds(store: Store, open_store: OpenStore) -> None:
    first = put(store, seconds=-1)
    stores = [open_store() for _ in range(8)]

    def fire(number: int) -> bool:
        pushes = [a_push(f"task-{number}", queue="default")]
        state = at(store, 60)
        return stores[number].schedules.write(first.entry, state, revision=first.revision, pushes=pushes) is not None

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(fire, range(8))) == [False] * 7 + [True]
    assert depth(store).ready == 1


def test_case_28_an_entry_that_cannot_be_read_is_named_and_the_others_go_on(durable_store: Store) -> None:
    put(durable_store, named("broken"), -2)
    put(durable_store, named("fine"), -1)
    break_schedule(durable_store, "broken")
    assert durable_store.schedules.broken() == ["broken"]
    assert [each.entry.id for each in durable_store.schedules.all()] == ["fine"]
    assert [each.entry.id for each in durable_store.schedules.due(limit=1)] == ["fine"]
    with pytest.raises(StoreRefused, match="broken"):
        durable_store.schedules.get("broken")
    assert durable_store.schedules.write(named("broken"), ScheduleState(), revision=0) is None
    fine = durable_store.schedules.get("fine")
    assert fine is not None and durable_store.schedules.write(fine.entry, at(durable_store, 60), revision=fine.revision)
    # The news of the writes above may still be on the way; after that nothing keeps it awake.
    assert not all(durable_store.schedules.wait(timeout_seconds=0.3) for _ in range(5))
    for entry_id in ("fine", "none"):
        assert durable_store.schedules.write(named(entry_id), ScheduleState(), revision=None) is None
    assert durable_store.schedules.write(named("broken"), ScheduleState(), revision=None) is not None
    assert durable_store.schedules.broken() == []


def test_an_id_that_is_no_text_hides_no_other_entry(durable_store: Store) -> None:
    put(durable_store, named("fine"), -1)
    put(durable_store, named("odd"), -2)
    if not rename_to_rubbish(durable_store, "odd"):
        return  # Postgres holds no such text
    assert [each.entry.id for each in durable_store.schedules.all()] == ["fine"]
    assert [each.entry.id for each in durable_store.schedules.due(limit=10)] == ["fine"]
    assert durable_store.schedules.broken() == ["o\\xff"]
    assert durable_store.schedules.delete("o\\xff") and durable_store.schedules.broken() == []


def test_a_wait_ends_with_a_change_and_when_an_entry_is_due(store: Store, open_store: OpenStore) -> None:
    assert not all(store.schedules.wait(timeout_seconds=0.1) for _ in range(5))
    other = open_store()
    ended: list[bool] = []
    thread = Thread(target=lambda: ended.append(store.schedules.wait(timeout_seconds=30)))
    thread.start()
    while thread.is_alive():  # a change that comes before the wait has begun does not end it
        other.schedules.delete("none")
        put(other, named(f"entry-{monotonic()}".replace(".", "-")))
        thread.join(0.2)
    assert ended == [True]
    put(store, seconds=0.5)
    began = monotonic()
    while not store.schedules.due(limit=1):
        assert store.schedules.wait(timeout_seconds=20)
    assert 0.2 < monotonic() - began < 10


@pytest.fixture
def apart(tmp_path: Path, namespace: str) -> Iterator[Store]:
    """Broker and results in different stores."""
    settings = Settings(namespace=namespace)
    stores = [connect(f"sqlite:///{tmp_path}/{name}.db", settings) for name in ("broker", "results")]
    joined = split.join(*stores)
    yield joined
    joined.upkeep.close()


def test_tasks_of_schedules_have_records_in_a_result_store_apart(apart: Store) -> None:
    first = put(apart)
    assert apart.schedules.write(first.entry, ScheduleState(), revision=first.revision, pushes=[a_push("a")])
    assert apart.results.get(["a"])["a"].state is State.QUEUED
    assert [each.entry.id for each in apart.schedules.all()] == ["it"]
