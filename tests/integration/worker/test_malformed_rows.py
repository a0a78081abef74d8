"""A task that somebody has written by hand is parked, and the worker goes on with the next."""

import logging
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stem import Stem
from stem.core.delivery import DeadFilter, Reclaimed
from stem.core.lifecycle import State
from stem.core.record import TaskFilter
from stem.core.settings.app import Settings
from stem.worker.supervisor import Worker
from support.builders import a_push, done
from support.servers import RedisServer
from support.stores.calls import claim

PLACES = {
    "expires": 4,
    "visible": 5,
    "aside": 6,
    "attempt": 7,
    "name": 18,
    "body": 23,
    "deaths": 25,
}  # in a packed task


def add(a: int, b: int) -> int:
    return a + b


def goes_on(app: Stem, victim: str, reason: str = "envelope-unreadable") -> None:
    """A worker parks the victim and runs what comes after it."""
    with Worker(app, in_process=True):
        assert app.tasks["add"].enqueue(3, 4).get(30) == 7
        assert app.handle(victim).wait(30).state is State.FAILED
        assert app.tasks["add"].enqueue(4, 4).get(30) == 8
    letters = app.store.deadletters.page(DeadFilter(), limit=9).items
    assert [(letter.id, letter.reason) for letter in letters] == [(victim, reason)]


@pytest.mark.parametrize(
    "change",
    ["body = 'text'", "body = NULL", "attempt = 'x'", "deaths = 'x'", "attempt = 1.5", "expires_at = 'x'",
     "visibility_timeout = 'x'", "name = x'ff'", "name = CAST(x'ff41' AS TEXT)", "queue = CAST(x'ff41' AS TEXT)"],
)  # fmt: skip
def test_sqlite(change: str, tmp_path: Path, namespace: str) -> None:
    with Stem(settings=Settings(namespace=namespace, broker_url=f"sqlite:///{tmp_path}/stem.db")) as app:
        app.task(name="add")(add)
        victim = app.tasks["add"].enqueue(1, 1).id
        with sqlite3.connect(f"{tmp_path}/stem.db", timeout=30) as raw:
            raw.execute(f"UPDATE stem_tasks SET {change}")
        goes_on(app, victim)


@pytest.mark.parametrize("id", ["x'ff'", "CAST(x'ff41' AS TEXT)"])
def test_an_id_that_is_no_text_on_sqlite(id: str, tmp_path: Path, namespace: str) -> None:
    with Stem(settings=Settings(namespace=namespace, broker_url=f"sqlite:///{tmp_path}/stem.db")) as app:
        app.task(name="add")(add)
        app.tasks["add"].enqueue(1, 1)
        with sqlite3.connect(f"{tmp_path}/stem.db", timeout=30) as raw:
            raw.execute(f"UPDATE stem_tasks SET id = {id}")
        goes_on(app, "ff41" if "41" in id else "ff")


def test_a_queue_changed_by_hand_on_sqlite_moves_no_other_task(tmp_path: Path, namespace: str) -> None:
    with Stem(settings=Settings(namespace=namespace, broker_url=f"sqlite:///{tmp_path}/stem.db")) as app:
        app.store.broker.push([a_push("a", queue="mail"), a_push("b", queue="default")])
        with sqlite3.connect(f"{tmp_path}/stem.db", timeout=30) as raw:
            raw.execute("UPDATE stem_tasks SET queue = 'mail' WHERE id = 'b'")
        for queues in (["default"], ["mail"]):
            assert len(app.store.broker.claim(queues, limit=1, lease_seconds=60)) == 1
        app.store.broker.push([a_push("c", queue="mail"), a_push("d", queue="default")])
        with sqlite3.connect(f"{tmp_path}/stem.db", timeout=30) as raw:
            raw.execute("UPDATE stem_tasks SET queue = 'mail' WHERE id = 'd'")
        both = [app.store.broker.claim(["default", "mail"], limit=1, lease_seconds=60) for _ in range(2)]
        assert [each.lease.id for one in both for each in one] == ["c", "d"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("body", 7), ("attempt", "x"), ("deaths", "x"), ("expires", "x"), ("visible", "x"), ("aside", "x"), ("name", 7)],
)
def test_redis(field: str, value: object, redis_server: RedisServer, namespace: str) -> None:
    import redis

    raw: Any = redis.Redis.from_url(redis_server.url)
    with Stem(settings=Settings(namespace=namespace, broker_url=redis_server.url)) as app:
        app.task(name="add")(add)
        victim = app.tasks["add"].enqueue(1, 1).id
        key = f"stem:{{{namespace}}}:t:{victim}"
        packed = raw.get(key)
        fields = msgspec.msgpack.decode(packed)
        fields[PLACES[field]] = value
        raw.set(key, packed[:14] + b"".join(map(msgspec.msgpack.encode, fields[3:])))
        goes_on(app, victim)


def test_rubbish_on_redis_keeps_nobody_back(redis_server: RedisServer, namespace: str) -> None:
    import redis

    with Stem(settings=Settings(namespace=namespace, broker_url=redis_server.url)) as app:
        app.task(name="add")(add)
        victim = app.tasks["add"].enqueue(1, 1).id
        redis.Redis.from_url(redis_server.url).set(f"stem:{{{namespace}}}:t:{victim}", b"\xc1")
        with Worker(app, in_process=True):
            assert app.tasks["add"].enqueue(3, 4).get(30) == 7


@pytest.mark.parametrize("rubbish", [b"\xc1", b"", b"\xdc\x00\x1b\x01" + b"\x93" * 30])
def test_a_batch_that_holds_rubbish_is_done_without_it(
    rubbish: bytes, redis_server: RedisServer, namespace: str
) -> None:
    import redis

    raw: Any = redis.Redis.from_url(redis_server.url)
    key = f"stem:{{{namespace}}}:t:"
    with Stem(settings=Settings(namespace=namespace, broker_url=redis_server.url)) as app:
        store = app.store
        store.broker.push([a_push("a"), a_push("b"), a_push("c", expires=0.0), a_push("d", priority=9)])
        expiring = raw.get(f"{key}c")
        raw.set(f"{key}c", expiring[:20] + rubbish)
        raw.set(f"{key}d", rubbish)
        a, b = claim(store, limit=4)
        raw.set(f"{key}a", rubbish)
        leases = [a.lease, b.lease]
        assert store.broker.start(leases, worker="w") == [a.lease]
        assert store.broker.renew(leases, lease_seconds=0.0) == [a.lease]
        assert list(store.results.get(["a", "b", "c", "d"])) == ["b"]
        assert [each.id for each in store.results.page(TaskFilter(), limit=9).items] == ["b"]
        assert store.broker.settle([done(a), done(b)], worker="w") == [a.lease]
        raw.zadd(f"stem:{{{namespace}}}:leases", {"a": 1})
        assert store.broker.reclaim() == Reclaimed([], [])
        assert raw.zscore(f"stem:{{{namespace}}}:leases", "a") is None
        assert store.broker.push([a_push("a"), a_push("e")])[0].created, "what is no task is no known id"


def test_the_fetcher_outlives_an_error_that_nobody_foresaw(
    namespace: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = iter(range(3))
    from stem.worker.services.fetcher import Fetcher

    claim = Fetcher._claim

    def fail_at_first(self: Fetcher, room: int) -> bool:
        if next(failures, None) is not None:
            raise TypeError("nobody foresaw it")
        return claim(self, room)

    monkeypatch.setattr(Fetcher, "_claim", fail_at_first)
    with Stem(f"memory://{namespace}", namespace=namespace) as app, caplog.at_level(logging.ERROR, "stem.worker"):
        app.task(name="add")(add)
        with Worker(app, in_process=True):
            assert app.tasks["add"].enqueue(3, 4).get(30) == 7
    told = [each.getMessage() for each in caplog.records if each.getMessage().startswith("fetcher.failed")]
    assert told == ["fetcher.failed: TypeError"]
