"""Short questions to a store, so that a test reads as a sentence."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, DeadLetter, Delivery, Depth, Lease
from stem.core.envelope import Push
from stem.core.errors import StoreUnavailable
from stem.core.event import Event
from stem.core.lifecycle import EventKind, State
from stem.core.record import TaskRecord
from support.builders import a_push, dead
from support.until import until

T = TypeVar("T")
WORKER = "worker-1"
LONG = 60.0  # a lease that outlives any test


def claim(store: Store, *queues: str, limit: int = 100, lease: float = LONG) -> list[Delivery]:
    return store.broker.claim(queues or ("default",), limit=limit, lease_seconds=lease)


def claim_one(store: Store, *queues: str, lease: float = LONG) -> Delivery:
    (delivery,) = claim(store, *queues, limit=1, lease=lease)
    return delivery


def push_and_claim(store: Store, push: Push | None = None, *, lease: float = LONG) -> Delivery:
    chosen = push or a_push()
    store.broker.push([chosen])
    return claim_one(store, chosen.envelope.queue, lease=lease)


def expire(store: Store, delivery: Delivery) -> None:
    """Wait for the lease to run out and take the task back."""
    until(lambda: delivery.lease.id in (found := store.broker.reclaim()).returned + found.dead)


def answered(call: Callable[[], T]) -> T | None:
    """None while the store does not answer, or the machine is too busy for so short a deadline."""
    try:
        return call()
    except StoreUnavailable:
        return None


def let_time_pass(store: Store, seconds: float) -> None:
    """By the store's own clock, which decides what is due and what has run out."""
    end = store.upkeep.now() + seconds
    until(lambda: store.upkeep.now() > end, seconds=seconds + 10)


def in_time(store: Store, seconds: float, work: Callable[[int], T]) -> T:
    """What `work` brings within so many seconds of the store's time; where the machine was halted on the way, it is done
    anew, under the next number."""
    for number in range(20):
        began = store.upkeep.now()
        found = work(number)
        if store.upkeep.now() < began + seconds:
            return found
    raise AssertionError(f"not once done within {seconds} s")


def fail_for_good(store: Store, *ids: str, queue: str = "default", reason: str = "retries-exhausted") -> None:
    """One dead letter an id, in this order of death."""
    for id in ids:
        delivery = push_and_claim(store, a_push(id, queue=queue))
        assert store.broker.settle([dead(delivery, reason)], worker=WORKER) == []


def ids(deliveries: Iterable[Delivery | DeadLetter | TaskRecord]) -> list[str]:
    return [each.lease.id if isinstance(each, Delivery) else each.id for each in deliveries]


def leases(deliveries: Iterable[Delivery]) -> list[Lease]:
    return [delivery.lease for delivery in deliveries]


def record(store: Store, id: str) -> TaskRecord:
    return store.results.get([id])[id]


def state(store: Store, id: str) -> State:
    return record(store, id).state


def depth(store: Store, queue: str = "default") -> Depth:
    return store.broker.depth([queue])[queue]


def dead_ids(store: Store, where: DeadFilter | None = None) -> list[str]:
    """Newest first."""
    page = store.deadletters.page(where or DeadFilter(), limit=1000)
    assert page.cursor is None
    return ids(page.items)


def all_events(store: Store, *, after: str | None = None, step: int = 1000) -> list[Event]:
    """Read the log page by page to its end."""
    found: list[Event] = []
    while batch := store.events.read(after, limit=step):
        found += batch
        after = batch[-1].offset
    return found


def events_of(store: Store, id: str) -> list[Event]:
    return [event for event in all_events(store) if event.task_id == id]


def kinds_of(store: Store, id: str) -> list[EventKind]:
    return [event.kind for event in events_of(store, id)]
