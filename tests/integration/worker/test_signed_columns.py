"""What a store keeps beside a signed envelope cannot be changed to effect: tried on each store, by hand."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stem import Stem
from stem.core.delivery import DeadFilter
from support.workers.fleet import Fleet, a_fleet

KEYS = "k1:hmac-sha256:" + "c2VjcmV0" * 6
OTHER = "nobodys"  # as long as "default", so that packed bytes can be changed in place
FIRST = ["first", "rewritten", "first-and-rewritten"]  # tasks of priority 4 that somebody lets go first


@pytest.fixture
def fleet(durable_url: str, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from a_fleet(durable_url, namespace, tmp_path)


def change_sqlite(url: str) -> None:
    import sqlite3

    with sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30) as raw:
        raw.execute("UPDATE stem_tasks SET name = 'doze' WHERE id = 'renamed'")
        seq = "(SELECT seq FROM stem_tasks WHERE id = ?)"
        raw.execute(f"UPDATE stem_ready SET queue = 'default' WHERE seq = {seq}", ("moved",))
        raw.execute(f"UPDATE stem_ready SET queue = 'default' WHERE seq = {seq}", ("moved-and-rewritten",))
        raw.execute("UPDATE stem_tasks SET queue = 'default' WHERE id = 'moved-and-rewritten'")
        raw.execute(f"UPDATE stem_delayed SET due_at = 0 WHERE seq = {seq}", ("early",))
        for id in ("first", "first-and-rewritten"):
            raw.execute(f"UPDATE stem_ready SET rank = 0 WHERE seq = {seq}", (id,))
        raw.execute("UPDATE stem_tasks SET priority = 9 WHERE id IN ('rewritten', 'first-and-rewritten')")


def change_postgres(url: str, namespace: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as raw:
        update = "UPDATE stem.messages SET {} WHERE ns = %s AND id = ANY (%s)"
        raw.execute(update.format("name = 'doze'"), (namespace, ["renamed"]))
        raw.execute(update.format("queue = 'default'"), (namespace, ["moved", "moved-and-rewritten"]))
        raw.execute(update.format("due_at = 0"), (namespace, ["early"]))
        raw.execute(update.format("priority = 9"), (namespace, FIRST))


def change_redis(url: str, namespace: str) -> None:
    import redis

    raw: Any = redis.Redis.from_url(url)
    prefix = f"stem:{{{namespace}}}:"

    def rewrite(id: str, old: bytes, new: bytes) -> None:
        packed = raw.get(f"{prefix}t:{id}")
        assert isinstance(packed, bytes) and packed.count(old) == 1
        raw.set(f"{prefix}t:{id}", packed.replace(old, new))

    rewrite("renamed", b"\xa4note", b"\xa4doze")
    rewrite("moved-and-rewritten", b"\xa7" + OTHER.encode(), b"\xa7default")
    for id in ("rewritten", "first-and-rewritten"):
        rewrite(id, b"\xa7default\x04", b"\xa7default\x09")
    for id in ("first", "first-and-rewritten"):
        raw.execute_command("ZADD", f"{prefix}ready:default", 1, id)
    for id in ("moved", "moved-and-rewritten"):
        score = raw.execute_command("ZSCORE", f"{prefix}ready:{OTHER}", id)
        raw.zrem(f"{prefix}ready:{OTHER}", id)
        raw.execute_command("ZADD", f"{prefix}ready:default", score, id)
    for member in raw.execute_command("ZRANGE", f"{prefix}delayed:default", 0, -1):
        raw.execute_command("ZADD", f"{prefix}delayed:default", 0, member)


def send_and_change(url: str, namespace: str, keys: str | None) -> None:
    with Stem(url, namespace=namespace, signing_keys=keys) as app:

        def send(id: str, **options: object) -> None:
            app.enqueue("note", {"mark": id}, check=False, id=id, **options)  # type: ignore[arg-type]

        send("renamed")
        send("moved", queue=OTHER)
        send("moved-and-rewritten", queue=OTHER)
        send("early", delay=3600)
        for id in FIRST:
            send(id, priority=4)
        send("good")
    match url.partition(":")[0]:
        case "sqlite":
            change_sqlite(url)
        case "redis":
            change_redis(url, namespace)
        case _:
            change_postgres(url, namespace)


def test_a_task_that_was_renamed_moved_hastened_or_put_first_is_parked(
    fleet: Fleet, durable_url: str, namespace: str
) -> None:
    send_and_change(durable_url, namespace, KEYS)
    fleet.start(variables={"STEM_SIGNING_KEYS": KEYS}, queues=["default"])
    forged = ["renamed", "moved", "moved-and-rewritten", "early", *FIRST]
    fleet.ended([*forged, "good"])
    letters = fleet.store.deadletters.page(DeadFilter(), limit=9).items
    assert {(letter.id, letter.reason) for letter in letters} == {(id, "signature-invalid") for id in forged}
    said = {letter.id: letter.error.message for letter in letters if letter.error is not None}
    assert all("priority" in said[id] and "signed for 4" in said[id] for id in FIRST)
    assert set(fleet.ledger.runs()) == {"good"}


def test_without_keys_the_store_decides_what_goes_first(fleet: Fleet, durable_url: str, namespace: str) -> None:
    send_and_change(durable_url, namespace, None)
    fleet.start(queues=["default"])
    fleet.ended([*FIRST, "good"])
    assert {*FIRST, "good"} <= set(fleet.ledger.runs())
