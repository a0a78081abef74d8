"""What tests ask other processes to do with a store."""

import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from threading import Barrier

from stem.contracts.store import Store
from support.builders import a_push, done
from support.until import until

Open = Callable[[], Store]


def push_one(open_store: Open, id: str, gate: Barrier | None = None) -> bool:
    """Connect, as one of many at the same moment, and push."""
    if gate is not None:
        gate.wait(60)
    store = open_store()
    (receipt,) = store.broker.push([a_push(id)])
    store.upkeep.close()
    return receipt.created


def claim_all(open_store: Open, gate: Barrier, total: int) -> list[str]:
    """Claim and settle in small steps, racing with others, until all `total` have ended; returns what this one got."""
    store = open_store()
    gate.wait(60)
    got: list[str] = []
    while store.broker.depth(["default"])["default"].ready:
        deliveries = store.broker.claim(["default"], limit=7, lease_seconds=60)
        got += [delivery.lease.id for delivery in deliveries]
        refused = store.broker.settle([done(delivery) for delivery in deliveries], worker="racer")
        assert refused == []
    store.upkeep.close()
    assert len(got) <= total
    return got


def settle_when_told(open_store: Open, id: str, gate: Barrier) -> float:
    """Claim the task, meet the parent, settle; returns when the settle was sent."""
    store = open_store()
    (delivery,) = store.broker.claim(["default"], limit=1, lease_seconds=60)
    assert delivery.lease.id == id
    gate.wait(60)
    at = time.time()
    assert store.broker.settle([done(delivery, "from afar")], worker="child") == []
    store.upkeep.close()
    return at


def push_when_told(open_store: Open, id: str, gate: Barrier) -> float:
    store = open_store()
    gate.wait(60)
    at = time.time()
    store.broker.push([a_push(id)])
    store.upkeep.close()
    return at


def send_when_told(open_store: Open, message: bytes, gate: Barrier) -> float:
    """To a mailbox and to a channel."""
    store = open_store()
    gate.wait(60)
    at = time.time()
    store.mail.send("box", message, ttl_seconds=60)
    store.mail.publish("news", message, ttl_seconds=60)
    store.upkeep.close()
    return at


def push_many(open_store: Open, name: str, number: int, gate: Barrier) -> None:
    store = open_store()
    gate.wait(60)
    for n in range(number):
        store.broker.push([a_push(f"{name}-{n}")])
    store.upkeep.close()


def hold_lock(open_store: Open, owner: str, gate: Barrier) -> int | None:
    """Try once, at the same moment as the others."""
    store = open_store()
    gate.wait(60)
    fence = store.locks.acquire("leader", owner=owner, ttl_seconds=60)
    store.upkeep.close()
    return fence


def read_one(open_store: Open, id: str) -> str:
    store = open_store()
    found = until(lambda: store.results.get([id]))
    store.upkeep.close()
    return str(found[id].state)


def keep_the_file_locked(_open_store: Open, file: str) -> None:
    """Hold the one write lock of an SQLite file, until killed."""
    with closing(sqlite3.connect(file, timeout=10, isolation_level=None)) as conn:
        conn.execute("BEGIN IMMEDIATE")
        signal.pause()
