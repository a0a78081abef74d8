"""What a Redis store leaves on the server: only keys that docs/redis-keys.md lists, and in the end almost none."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import redis

from stem.backends import connect
from stem.contracts.limiter import Bucket, Place
from stem.contracts.rollups import MinuteRow
from stem.contracts.schedules import ScheduleEntry, ScheduleState
from stem.contracts.staging import Part, calls_of
from stem.contracts.store import Store
from stem.contracts.task_logs import LogLine
from stem.core.delivery import DeadFilter
from stem.core.envelope import Unique
from stem.core.heartbeat import Heartbeat
from stem.core.prerequisites import CASCADE_LIMIT
from stem.core.record import TaskFilter, moment
from stem.core.revoke import RevokeRequest
from stem.core.settings.app import Retention, Settings
from support.builders import a_push, dead, done, pushes
from support.servers import RedisServer
from support.stores.calls import in_time, let_time_pass
from support.stores.handoffs import register, wait_for_handoff
from support.until import until

DOCUMENT = Path(__file__).parents[3] / "docs" / "redis-keys.md"
BRIEF = Retention(results_seconds=0.2, events_seconds=0.2, events_count=1000, logs_seconds=0.2)
LASTING = {"numbers", "events"}


@pytest.fixture
def server(redis_server: RedisServer) -> Iterator["redis.Redis"]:
    with redis.Redis(port=redis_server.port, decode_responses=True) as client:
        yield client


@pytest.fixture
def store(redis_server: RedisServer, namespace: str) -> Iterator[Store]:
    opened = connect(redis_server.url, Settings(namespace=namespace, retention=BRIEF))
    yield opened
    opened.upkeep.close()


def test_every_key_is_documented_and_nothing_outlives_its_time(
    store: Store, server: "redis.Redis", namespace: str
) -> None:
    seen: set[str] = set()
    for number in range(5):  # a halt of the machine may outlast a brief key, but not each time
        for _ in live(store, number):
            seen |= {key.partition(":")[0] for key in keys(server, namespace)}
        if seen >= documented():
            break
    assert seen == documented()
    until(lambda: store.upkeep.prune() == 0 and keys(server, namespace) == LASTING)


def test_endings_sweep_what_retention_has_outlived(store: Store, server: "redis.Redis", namespace: str) -> None:
    brief = BRIEF.results_seconds * 0.9

    def ended(*ids: str) -> tuple[set[str], list[str]]:
        """What there is of tasks, as keys and as a page, right after these have ended; by the letters of their ids."""
        store.broker.push(pushes(*ids))
        settle_all(store, len(ids))
        kept = {key[2] for key in keys(server, namespace) if key.startswith("t:")}
        return kept, [record.id[0] for record in store.results.page(TaskFilter(), limit=9).items]

    kept, page = in_time(store, brief, lambda number: ended(f"a{number}", f"b{number}", f"c{number}"))
    assert kept == set(page) == {"a", "b", "c"}
    let_time_pass(store, BRIEF.results_seconds)
    kept, page = in_time(store, brief, lambda number: ended(f"d{number}", f"e{number}"))
    assert kept == set(page) == {"d", "e"}
    assert page[:2] == ["e", "d"]


def test_a_dead_letter_outlives_retention_and_its_record_with_it(store: Store, server: "redis.Redis") -> None:
    store.broker.push([a_push("a")])
    (delivery,) = store.broker.claim(["default"], limit=1, lease_seconds=9)
    store.broker.settle([dead(delivery)], worker="w")
    until(lambda: store.upkeep.prune() == 0 and store.events.head() is None)
    assert store.deadletters.get("a") is not None
    assert "a" in store.results.get(["a"])
    store.deadletters.purge(DeadFilter())
    until(lambda: store.upkeep.prune() >= 0 and store.results.get(["a"]) == {})


def settle_all(store: Store, count: int) -> None:
    deliveries = store.broker.claim(["default"], limit=count, lease_seconds=60)
    assert len(deliveries) == count
    assert store.broker.settle([done(delivery) for delivery in deliveries], worker="w") == []


def live(store: Store, number: int) -> Iterator[None]:
    """A short life that uses every key there is."""
    waiting = [a_push(f"g{number}.{each}", after=[f"f{number}"], queue="after") for each in range(CASCADE_LIMIT + 1)]
    store.broker.push([a_push(f"f{number}", queue="before"), *waiting])
    store.broker.push(
        [
            a_push(f"a{number}", unique="until-done", args={"text": "x" * 2000}),
            a_push(f"b{number}", unique=Unique(f"brief{number}", 0.2)),
            a_push(f"c{number}", delay=60),
        ]
    )
    store.locks.acquire("lock", owner="me", ttl_seconds=0.2)
    store.limiter.take([Bucket("k", tokens=5, per_seconds=1, burst=1)])
    store.limiter.hold([Place("k", holder="me", limit=1, ttl_seconds=0.2)])
    store.heartbeats.beat(_heartbeat(), ttl_seconds=0.2)
    store.mail.send("box", b"message", ttl_seconds=0.2)
    store.mail.publish("channel", b"message", ttl_seconds=0.2)
    store.revokes.put([RevokeRequest(task_id="x", expires_seconds=0.2)])
    store.task_logs.append([LogLine(task_id="x", attempt=0, at=0.0, level="info", text="x")])
    store.rollups.put([MinuteRow(minute=moment(store.upkeep.now()))])
    entry, state = ScheduleEntry(id="s", task="t", spec="1h"), ScheduleState(due_at=moment(store.upkeep.now()))
    store.schedules.write(entry, state, revision=0)
    store.staging.stage(f"job{number}", "part", calls_of(pushes(f"d{number}", queue="staged")))
    register(store, queue="handed")
    store.broker.push(pushes(f"e{number}", queue="handed"))
    yield
    (handed,) = store.broker.stop_handoff()
    store.broker.settle([done(handed)], worker="w")
    store.staging.promote(f"job{number}", [Part("part", 1)])
    first, second = store.broker.claim(["default"], limit=9, lease_seconds=0.0)
    store.broker.start([first.lease], worker="w")
    store.steps.record(first.lease, "step", msgspec.Raw(b"1"))
    assert store.broker.reclaim(grace_seconds=0.2).returned == []
    until(lambda: len(store.broker.reclaim().returned) == 2)
    yield
    assert store.broker.renew([first.lease], lease_seconds=60) == [first.lease]  # so it has not died
    first, second = store.broker.claim(["default"], limit=9, lease_seconds=60)
    yield
    store.broker.settle([done(first), dead(second)], worker="w")
    yield
    store.broker.cancel([f"f{number}"])
    yield
    store.broker.reclaim()  # goes on with the cancellations
    store.deadletters.purge(DeadFilter())
    store.broker.purge("default")
    store.broker.purge("staged")
    store.schedules.delete("s")
    assert not wait_for_handoff(store, ("handed",))  # so it says that it has heard
    assert store.broker.stop_handoff() == []
    yield


def keys(server: "redis.Redis", namespace: str) -> set[str]:
    prefix = f"stem:{{{namespace}}}:"
    return {key.removeprefix(prefix) for key in server.scan_iter(match=prefix.replace("{", "\\{") + "*", count=1000)}


def documented() -> set[str]:
    tables = DOCUMENT.read_text().partition("## Channels")[0]
    return {key.partition(":")[0] for key in re.findall(r"^\| `([a-z:]+)", tables, re.MULTILINE)}


def _heartbeat() -> Heartbeat:
    return Heartbeat(
        worker_id="w",
        namespace="n",
        host="h",
        pid=1,
        uptime_seconds=1.0,
        concurrency=1,
        in_flight=0,
        queues=["default"],
    )
