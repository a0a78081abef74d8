"""The workers that have lately been heard of."""

from typing import Any

import msgspec
import pytest

from conftest import OpenStore
from stem.backends import connect
from stem.contracts.store import Store
from stem.control.caller import Caller
from stem.control.health import health
from stem.core.control import Reply
from stem.core.heartbeat import Heartbeat, Pulse
from stem.core.settings.app import Settings
from support.servers import RedisServer
from support.until import until
from support.workers.steerable import on_duty


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


@pytest.mark.parametrize(
    "malformed",
    [
        {"pid": -1},
        {"pid": 2**40},
        {"pid": "1"},
        {"worker_id": "../w"},
        {"worker_id": "w\n"},
        {"queues": "default"},
        {"extras": []},
        {
            "extras": {
                "controlNamespace": 5,
                "controlUrl": 7,
                "beatSeconds": "often",
                "signedControl": "yes",
                "state": {},
            }
        },
    ],
)
def test_a_malformed_heartbeat_breaks_no_command(store: Store, malformed: dict[str, Any]) -> None:
    if not store.capabilities.crosses_processes:
        pytest.skip("nobody else can write there")
    forged = msgspec.structs.replace(a_heartbeat("forged"), **malformed)
    store.heartbeats.beat(msgspec.structs.replace(forged, worker_id="forged"), ttl_seconds=60)
    store.heartbeats.beat(forged, ttl_seconds=60)
    with on_duty(store, "w1"):
        answers = Caller(store).ask("ping", workers=["w1"], timeout_seconds=20)
        assert {name: reply.status for name, reply in answers.replies.items()} == {"w1": "ok"}
        assert "w1" in Caller(store).known()
        assert not Caller(store).asks_for_signatures()
        assert health(_silence(), Pulse(forged, 1.0) if malformed.keys() <= {"extras"} else None) in ("dead", "timeout")


def test_rubbish_in_place_of_a_heartbeat_hides_no_other(redis_server: RedisServer, namespace: str) -> None:
    import redis

    opened = connect(redis_server.url, Settings(namespace=namespace))
    raw = redis.Redis.from_url(redis_server.url)
    opened.heartbeats.beat(a_heartbeat("forged"), ttl_seconds=60)
    opened.heartbeats.beat(a_heartbeat("w"), ttl_seconds=60)
    (key,) = [key for key in raw.keys("*beat:forged") if namespace.encode() in key]
    for rubbish in (b"", b"\xc1", b"\x93\x01", b"\x92\xa1x\x01", b"\x05"):
        raw.set(key, rubbish)
        assert [pulse.heartbeat.worker_id for pulse in opened.heartbeats.all()] == ["w"]
    opened.upkeep.close()


def _silence() -> Reply:
    return Reply(request_id="r", worker_id="forged", status="timeout")


def test_a_goodbye_is_at_once(store: Store) -> None:
    store.heartbeats.beat(a_heartbeat("w"), ttl_seconds=60)
    assert store.heartbeats.forget("w")
    assert store.heartbeats.all() == []
    assert not store.heartbeats.forget("w")
