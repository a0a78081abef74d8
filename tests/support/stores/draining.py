"""A fresh consumer after a disaster: bring every task to an ending, then look for what is stuck, lost or doubled."""

import time
from collections.abc import Sequence

from stem.contracts.store import Store
from stem.core.delivery import DeadFilter
from stem.core.lifecycle import TERMINAL, EventKind, State
from stem.core.record import TaskFilter, TaskRecord
from support.builders import a_push, done
from support.stores.lifecycle_check import walk
from support.stores.snapshot import lives

NEVER = 1_000_000  # deaths that a task may survive here: the disaster is ours, not the task's


def drain(store: Store, queues: Sequence[str], *, seconds: float = 30.0) -> None:
    """Reclaim, replay, claim and settle until nothing waits, runs or lies dead."""
    end = time.monotonic() + seconds
    while store.broker.depth():
        assert time.monotonic() < end, f"still there after {seconds} s: {store.broker.depth()}"
        store.broker.reclaim(max_deaths=NEVER)
        store.deadletters.replay(DeadFilter())
        deliveries = store.broker.claim(queues, limit=500, lease_seconds=60)
        refused = store.broker.settle([done(each, each.lease.id) for each in deliveries], worker="drain")
        assert refused == []
        if not deliveries:
            store.broker.wait(queues, timeout_seconds=0.05)


def drain_and_check(store: Store, queues: Sequence[str]) -> list[TaskRecord]:
    """Every task ended, at most once with success and with its own result; its log is a legal life; no key is held."""
    drain(store, queues)
    records = store.results.page(TaskFilter(), limit=1_000_000).items
    told = lives(store)
    assert {record.id for record in records} == set(told)
    for record in records:
        kinds = [event.kind for event in told[record.id]]
        assert record.state in TERMINAL
        assert walk(told[record.id]) == record.state
        assert kinds.count(EventKind.ENQUEUED) == 1
        assert kinds.count(EventKind.SUCCEEDED) == (record.state is State.SUCCEEDED)
        assert record.state is not State.SUCCEEDED or (record.result(), record.error) == (record.id, None)
    keys = ["key-one", *(f"key-{n}" for n in range(40))]
    receipts = store.broker.push([a_push(f"after-{key}", unique=key, queue="after") for key in keys])
    assert all(receipt.created for receipt in receipts), "a unique key is still held by nobody"
    return records
