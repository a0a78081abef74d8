"""Short sentences about tasks that wait for others."""

from stem.contracts.store import Store
from stem.core.delivery import Delivery
from stem.core.event import Event
from stem.core.lifecycle import State
from stem.core.record import TaskError
from support.builders import cancelled, dead, done
from support.stores.calls import WORKER, claim, depth, events_of, state


def take(store: Store, *ids: str, queue: str = "default") -> list[Delivery]:
    """Claim everything that is due; it is these tasks and no others, whatever their order. Returned as they are named."""
    found = {each.lease.id: each for each in claim(store, queue)}
    assert sorted(found) == sorted(ids)
    return [found[id] for id in ids]


def succeed(store: Store, *ids: str, queue: str = "default") -> None:
    """All that is due, which is these tasks, succeed in one batch."""
    assert (
        store.broker.settle([done(each, each.lease.id) for each in take(store, *ids, queue=queue)], worker=WORKER) == []
    )


def fail(store: Store, *ids: str, queue: str = "default") -> None:
    """All that is due, which is these tasks, become dead letters in one batch."""
    assert store.broker.settle([dead(each) for each in take(store, *ids, queue=queue)], worker=WORKER) == []


def stop(store: Store, *ids: str, passes: bool = False, queue: str = "default") -> None:
    """All that is due, which is these tasks, are cancelled by their worker in one batch."""
    taken = take(store, *ids, queue=queue)
    assert store.broker.settle([cancelled(each, passes=passes) for each in taken], worker=WORKER) == []


def is_blocked(store: Store, *ids: str) -> bool:
    """They wait, and nobody can claim them."""
    assert all(state(store, id) in (State.QUEUED, State.RETRIED) for id in ids)
    assert all(store.broker.find(id) is not None for id in ids)
    return not any(each.id in ids for each in store.broker.peek("default", limit=1000))


def states(store: Store, *ids: str) -> list[str]:
    found = store.results.get(ids)
    return [str(found[id].state) for id in ids]


def error_of(store: Store, id: str) -> TaskError:
    error = store.results.get([id])[id].error
    assert error is not None
    return error


def counts(store: Store, queue: str = "default") -> tuple[int, int, int, int, int]:
    """Ready, delayed, running, dead and blocked."""
    each = depth(store, queue)
    return (each.ready, each.delayed, each.running, each.dead, each.blocked)


def told(store: Store, id: str) -> list[tuple[str, dict[str, object]]]:
    """Kind and data of each event of a task, in order."""
    return [(str(event.kind), event.data) for event in events_of(store, id)]


def last(store: Store, id: str) -> Event:
    return events_of(store, id)[-1]
