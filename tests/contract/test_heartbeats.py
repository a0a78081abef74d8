"""The workers that have lately been heard of."""

from typing import Any

from conftest import OpenStore
from stem.contracts.store import Store
from stem.core.heartbeat import Heartbeat
from support.until import until


def a_heartbeat(worker: str, **more: Any) -> Heartbeat:
    return Heartbeat(
        worker_id=worker, namespace="n", host="h", pid=1, uptime_seconds=2.5, concurrency=4, in_flight=1,
        queues=["default", "mail"], **more,
    )  # fmt: skip


def test_a_worker_is_listed_with_what_it_said_and_its_age(store: Store, open_store: OpenStore) -> None:
    assert store.heartbeats.all() == []
    said = a_heartbeat("w", counters={"done": 3}, extras={"k": ["ü", None]}, load=0.5, memory_bytes=1 << 40)
    store.heartbeats.beat(said, ttl_seconds=60)
    (pulse,) = open_store().heartbeats.all()
    assert pulse.heartbeat == said
    assert 0 <= pulse.age_seconds < 5
    until(lambda: store.heartbeats.all()[0].age_seconds >= 0.05)


def test_workers_are_listed_by_id_and_each_once(store: Store) -> None:
    for worker in ("b", "c", "a", "b"):
        store.heartbeats.beat(a_heartbeat(worker, queue_depth=1), ttl_seconds=60)
    store.heartbeats.beat(a_heartbeat("b", queue_depth=7), ttl_seconds=60)
    assert [(p.heartbeat.worker_id, p.heartbeat.queue_depth) for p in store.heartbeats.all()] == [
        ("a", 1),
        ("b", 7),
        ("c", 1),
    ]


def test_a_silent_worker_is_forgotten_and_a_beat_keeps_it(store: Store) -> None:
    store.heartbeats.beat(a_heartbeat("silent"), ttl_seconds=0.1)
    store.heartbeats.beat(a_heartbeat("kept"), ttl_seconds=0.1)
    store.heartbeats.beat(a_heartbeat("kept"), ttl_seconds=60)
    until(lambda: [p.heartbeat.worker_id for p in store.heartbeats.all()] == ["kept"])
    assert not store.heartbeats.forget("silent")
    store.upkeep.prune()
    assert [p.heartbeat.worker_id for p in store.heartbeats.all()] == ["kept"]


def test_a_goodbye_is_at_once(store: Store) -> None:
    store.heartbeats.beat(a_heartbeat("w"), ttl_seconds=60)
    assert store.heartbeats.forget("w")
    assert store.heartbeats.all() == []
    assert not store.heartbeats.forget("w")
