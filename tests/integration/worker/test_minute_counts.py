"""Workers count what they settle into the store's rollups, as the pipeline would name it."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from stem.contracts.rollups import Measures, MinuteRow, merged
from stem.contracts.store import Store
from stem.core.delivery import Delivery, Ending
from stem.core.outcome import Cancelled, Dead, Done, Requeue, Retry, Settlement
from stem.core.record import TaskError
from stem.worker.pool.in_flight import InFlightTask
from stem.worker.services.minute_counts import MinuteCounts
from support.builders import a_push
from support.until import until
from support.workers.processes import desk, worker_process

ERROR = TaskError("E", "boom")
DONE = Done(msgspec.Raw(b"1"))


def rows(store: Store) -> list[MinuteRow]:
    now = datetime.fromtimestamp(store.upkeep.now(), UTC)
    return list(store.rollups.read(now - timedelta(minutes=5), now + timedelta(minutes=5)))


def all_of(store: Store) -> Measures:
    return merged(rows(store), ()).get((), Measures())


def claimed(store: Store, **envelope: Any) -> Delivery:
    store.broker.push([a_push(**envelope)])
    (delivery,) = store.broker.claim(["default"], limit=1, lease_seconds=60)
    return delivery


def settled(
    store: Store, *endings: tuple[Settlement, float | None], **envelope: Any
) -> list[tuple[InFlightTask, Ending]]:
    found = [(claimed(store, **envelope), *each) for each in endings]
    return [
        (InFlightTask(delivery, None), Ending(delivery.lease, settlement, seconds))
        for delivery, settlement, seconds in found
    ]


def test_endings_are_counted_by_kind_with_run_and_wait(store: Store) -> None:
    counts = MinuteCounts(store, "w1", [])
    counts.add(
        settled(
            store,
            (DONE, 0.5),
            (DONE, 1.5),
            (Retry(1.0, ERROR), 0.1),
            (Dead("retries-exhausted", ERROR), 0.2),
            (Cancelled("revoked"), 0.3),
            (Requeue(died=True), 0.1),
            (Requeue(throttled=True), None),
        )
    )
    counts.tick()
    measures = all_of(store)
    wanted = {
        "succeeded": 2,
        "retried": 1,
        "failed": 1,
        "dead_lettered": 1,
        "revoked": 1,
        "cancelled": 1,
        "requeued": 1,
    }
    assert {name: measures.sums[name] for name in wanted} == wanted
    assert (measures.sums["lost"], measures.sums["throttled"]) == (1, 1)
    assert sum(measures.histograms["run"].values()) == 6
    assert sum(measures.histograms["wait"].values()) == 6
    assert measures.mosts["run_most"] == 1.5
    assert measures.shown()["run_p95"] is not None
    assert {(row.name, row.queue, row.worker) for row in rows(store)} == {("demo.add", "default", "w1")}


def test_a_row_is_put_whole_so_that_a_second_tick_adds_nothing(store: Store) -> None:
    counts = MinuteCounts(store, "w1", [])
    counts.add(settled(store, (DONE, 0.5)))
    counts.tick()
    counts.tick()
    counts.add(settled(store, (DONE, 0.5)))
    counts.tick()
    assert all_of(store).sums["succeeded"] == 2


def test_a_process_of_the_same_name_goes_on_from_what_the_one_before_counted(store: Store) -> None:
    for _ in range(2):
        counts = MinuteCounts(store, "w1", [])
        counts.add(settled(store, (DONE, 0.5)))
        counts.tick()
    assert all_of(store).sums["succeeded"] == 2


def test_tenants_have_rows_of_their_own(store: Store) -> None:
    counts = MinuteCounts(store, "w1", [])
    ((task, ending),) = settled(store, (DONE, 0.5))
    counts.add([(task, ending), (task, msgspec.structs.replace(ending, facts={"tenant": "acme"}))])
    counts.tick()
    assert {row.tenant for row in rows(store)} == {None, "acme"}


def test_depths_of_the_queues_are_sampled(store: Store) -> None:
    store.broker.push([a_push(f"t{i}", queue="mail") for i in range(7)])
    MinuteCounts(store, "w1", ["mail"]).tick()
    (row,) = rows(store)
    assert (row.name, row.queue) == (None, "mail")
    assert (row.measures.sums["samples"], row.measures.sums["ready"], row.measures.mosts["ready_most"]) == (1, 7, 7)


def test_a_minute_that_the_pipeline_has_counted_is_left_to_it(store: Store, monkeypatch: Any) -> None:
    counts = MinuteCounts(store, "w1", [])
    counts.add(settled(store, (DONE, 0.5)))
    counts.tick()
    (ours,) = rows(store)
    exact = msgspec.structs.replace(ours, measures=Measures({"enqueued": 9, "started": 1, "succeeded": 1}))
    store.rollups.put([exact])
    counts.add(settled(store, (DONE, 0.5)))  # settled in that minute, and written after it
    before = time.monotonic()
    monkeypatch.setattr("stem.worker.services.minute_counts.time.monotonic", lambda: before + 60)
    monkeypatch.setattr(type(store.upkeep), "now", _later(store.upkeep.now()))
    counts.tick()
    found = [row for row in store.rollups.read(ours.minute, ours.minute + timedelta(minutes=1)) if row.name]
    assert found[0].measures.sums["succeeded"] == 2  # the pipeline had not seen the second one: ours counts
    store.rollups.put([msgspec.structs.replace(exact, measures=Measures({"started": 3, "succeeded": 3}))])
    counts._changed.add(next(iter(counts._minutes)))
    counts.tick()
    found = [row for row in store.rollups.read(ours.minute, ours.minute + timedelta(minutes=1)) if row.name]
    assert found[0].measures.sums["succeeded"] == 3


def test_a_worker_counts_and_can_be_told_not_to(durable_url: str, namespace: str, tmp_path: Path) -> None:
    app = "support.worker_apps.plain:app"
    with desk(durable_url, namespace) as client:
        with worker_process(durable_url, namespace, app, tmp_path, name="w1", minute_counts=False) as worker:
            assert client.call("echo", value=1) == 1
            worker.stop()
        assert rows(client.app.store) == []
        with worker_process(durable_url, namespace, app, tmp_path, name="w1") as worker:
            assert client.call("echo", value=1) == 1
            worker.stop()
        until(lambda: all_of(client.app.store).sums.get("succeeded") == 1)


def _later(now: float) -> Any:
    return lambda _self: now + 60
