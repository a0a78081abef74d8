"""No script holds the server for long, however much is kept there: what is long goes in steps."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.delivery import Depth
from stem.core.revoke import RevokeRequest
from stem.core.settings.app import Settings
from support.builders import a_push
from support.servers import RedisServer
from support.until import until

MARKS = 30_000
QUEUES = 100_000
LETTERS = 200_000


@pytest.fixture
def server(redis_server: RedisServer) -> Iterator["redis.Redis"]:
    with redis.Redis(port=redis_server.port, decode_responses=True) as client:
        yield client


@pytest.fixture
def store(redis_server: RedisServer, namespace: str) -> Iterator[Store]:
    opened = connect(redis_server.url, Settings(namespace=namespace))
    yield opened
    opened.upkeep.close()


def test_reading_revokes_steps_past_many_that_have_expired(store: Store, server: "redis.Redis") -> None:
    marks = [RevokeRequest(task_id=f"t{number}", expires_seconds=1.5) for number in range(MARKS)]
    for first in range(0, MARKS, 5000):
        store.revokes.put(marks[first : first + 5000])
    store.revokes.put([RevokeRequest(task_id="a"), RevokeRequest(task_id="b")])
    until(lambda: not store.revokes.get([marks[-1].task_id]))
    with short_scripts(server, commands=4):
        assert [mark.task_id for mark in store.revokes.since(0, limit=1)] == ["a"]
        assert [mark.task_id for mark in store.revokes.since(0, limit=10)] == ["a", "b"]


def test_each_revoke_drops_some_that_have_expired(store: Store) -> None:
    store.revokes.put([RevokeRequest(task_id=f"t{number}", expires_seconds=0.01) for number in range(150)])
    until(lambda: not store.revokes.get(["t0"]))
    store.revokes.put([RevokeRequest(task_id="t0")])
    assert store.revokes.get(["t0"])["t0"].expires_at is None
    assert store.revokes.prune() == 50


def test_counting_and_pruning_go_in_steps_over_many_queues(store: Store, server: "redis.Redis", namespace: str) -> None:
    known = f"stem:{{{namespace}}}:queues"
    for first in range(0, QUEUES, 10_000):
        server.sadd(known, *(f"empty-{number}" for number in range(first, first + 10_000)))
    store.broker.push([a_push(queue="ready"), a_push(queue="delayed", delay=60), a_push(queue="running")])
    store.broker.claim(["running"], limit=1, lease_seconds=60)
    counts = {"ready": Depth(1, 0, 0, 0), "delayed": Depth(0, 1, 0, 0), "running": Depth(0, 0, 1, 0)}
    with short_scripts(server, commands=6000):
        assert store.broker.depth() == counts
        store.upkeep.prune()
    assert server.smembers(known) == {"ready", "delayed"}
    assert store.broker.depth() == counts


def test_a_box_of_expired_mail_is_emptied_in_steps(store: Store, server: "redis.Redis", namespace: str) -> None:
    for _ in range(LETTERS // 10_000):
        server.rpush(f"stem:{{{namespace}}}:box:b", *["0000000000000001old"] * 10_000)
    store.mail.send("b", b"new", ttl_seconds=60)
    with short_scripts(server, commands=1100):
        assert store.mail.receive("b", timeout_seconds=0) == [b"new"]
    assert store.mail.receive("b", timeout_seconds=0) == []


def test_a_channel_of_expired_mail_is_read_in_steps(store: Store, server: "redis.Redis", namespace: str) -> None:
    subscription = store.mail.subscribe("c")
    with server.pipeline(transaction=False) as pipeline:
        for number in range(1, LETTERS + 1):
            moment = 2**52 if number in (1, LETTERS) else 1
            pipeline.xadd(f"stem:{{{namespace}}}:channel:c", {"until": moment, "message": "m"}, id=f"{number}-0")
        pipeline.execute()
    with short_scripts(server, commands=15):
        assert subscription.receive(timeout_seconds=0, limit=1) == [b"m"]
        assert subscription.receive(timeout_seconds=0) == [b"m"]
        assert subscription.receive(timeout_seconds=0) == []


def test_expired_mail_does_not_pile_up_behind_a_message_that_lives_for_long(
    store: Store, server: "redis.Redis", namespace: str
) -> None:
    subscription = store.mail.subscribe("c")
    store.mail.publish("c", b"long-lived", ttl_seconds=60)
    for _ in range(1000):
        store.mail.publish("c", b"brief", ttl_seconds=0.001)
    store.mail.publish("c", b"last", ttl_seconds=60)
    assert server.xlen(f"stem:{{{namespace}}}:channel:c") < 100
    messages = subscription.receive(timeout_seconds=0)
    assert [message for message in messages if message != b"brief"] == [b"long-lived", b"last"]


@contextmanager
def short_scripts(server: "redis.Redis", *, commands: int) -> Iterator[None]:
    """A script runs so many commands at most, on average. Counted, for a clock would also tell of the machine's load."""
    server.config_resetstat()
    yield
    calls = {name.removeprefix("cmdstat_"): each["calls"] for name, each in server.info("commandstats").items()}
    scripts = calls.pop("eval", 0) + calls.pop("evalsha", 0)
    assert 0 < sum(calls.values()) <= commands * scripts
