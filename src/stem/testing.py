"""Runs tasks in your tests, at once and with a clock that you move.

with eager(app) as world:
    handle = send_mail.enqueue("ada@example.org")  # runs at once, through JSON and the same state machine
    world.clock.advance(60)  # retries and delayed tasks that come due run in their turn
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import uuid4

import msgspec

from stem.backends import memory
from stem.client.app import Stem
from stem.client.canvas.values import StoredValue, stored_value
from stem.client.run.attempt import attempt
from stem.client.run.context import StoppedBy
from stem.contracts.broker import Broker
from stem.contracts.steps import Step
from stem.contracts.store import Store
from stem.core.delivery import Delivery, Ending, Lease, Report
from stem.core.envelope import Push, Receipt, call_facts
from stem.core.errors import TaskRevoked
from stem.runtime.clock import FakeClock as FakeClock

WORKER = "stem-testing"
LEASE_SECONDS = 300.0
OFTEN = (
    200  # attempts before which the queues are looked for anew each time, which reads all tasks; then once in as many
)

# The apps whose tasks are being run, as seen from within those tasks, whichever thread they go on in.
_running: ContextVar[frozenset[Stem]] = ContextVar("_running", default=frozenset())


class World:
    """The store and clock of an app in eager mode."""

    def __init__(self, app: Stem) -> None:
        self.clock = MovedClock(self)
        self._app = app

    def run_pending(self, *, queues: Sequence[str] | None = None, limit: int | None = None) -> int:
        return run_pending(self._app, queues=queues, limit=limit)

    def run_now(self) -> None:
        """Run pending tasks after an enqueue, unless a task of the app is running."""
        if self._app not in _running.get():
            self.run_pending()

    def next_due_at(self) -> float | None:
        """Return when the next waiting task is due, in seconds since 1970."""
        broker = self._app.store.broker
        waiting = [peeked for queue in broker.depth() for peeked in broker.peek(queue, limit=1)]
        return min((peeked.due_at.timestamp() for peeked in waiting), default=None)


class MovedClock(FakeClock):
    """A clock that runs the tasks that come due when it is moved, each at its own time."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def advance(self, seconds: float) -> None:
        target = self() + seconds
        while (due_at := self._world.next_due_at()) is not None and due_at <= target:
            super().advance(max(0.0, due_at - self()))
            if not self._world.run_pending():
                break
        super().advance(max(0.0, target - self()))


@contextmanager
def eager(app: Stem) -> Iterator[World]:
    """Run tasks at once when they are enqueued inside the `with` block. The app's own store is untouched.

    A task that fails is retried when the clock is moved past its delay (without jitter). Waiting for a task that has not
    ended raises WaitTimeout at once, because nothing would change meanwhile. A `connection=` is ignored. What a task
    itself enqueues runs when that task has ended, or when it waits for the result. Closing the app changes nothing here.
    A broadcast has one worker, `stem-testing`.
    """
    world = World(app)
    store = memory.connect(f"memory://eager-{uuid4().hex}", app.settings, clock=world.clock)
    with app.store_connection.replaced(
        store, world.clock, after_push=world.run_now, before_wait=world.run_pending, worker=WORKER
    ):
        yield world


def run_pending(app: Stem, *, queues: Sequence[str] | None = None, limit: int | None = None) -> int:
    """Run, in this thread, what is due in these queues (default: all) until nothing is, or `limit` attempts have run;
    returns how many. Tasks whose run was cut off are among them once their lease has run out."""
    broker, ran, outer = app.store.broker, 0, _running.get()
    if app not in outer:  # else the lease of the task that calls this might be taken from it
        broker.reclaim()
    token, names = _running.set(outer | {app}), list(queues or ())
    try:
        while limit is None or ran < limit:
            deliveries = _claimed(broker, names) if queues is not None or (ran >= OFTEN and ran % OFTEN) else []
            if not deliveries and queues is None:
                names = list(broker.depth())
                deliveries = _claimed(broker, names)
            if not deliveries:
                break
            run(app, deliveries[0])
            ran += 1
    finally:
        _running.reset(token)
    return ran


def _claimed(broker: Broker, queues: Sequence[str]) -> list[Delivery]:
    return broker.claim(queues, limit=1, lease_seconds=LEASE_SECONDS) if queues else []


def run(app: Stem, delivery: Delivery) -> None:
    """Run one attempt and write its ending, as a worker does."""
    broker, lease = app.store.broker, delivery.lease
    result = attempt(
        app,
        delivery,
        StoreChannel(app.store, lease),
        worker=WORKER,
        begin=lambda _admitted: broker.start([lease], worker=WORKER),
        random_fraction=lambda: 0.0,
        catch_interrupts=False,
    )
    broker.settle(
        [
            Ending(
                lease,
                result.settlement,
                result.run_seconds,
                dict(result.meta),
                result.follow_ups,
                call_facts(delivery.body),
            )
        ],
        worker=WORKER,
    )


class StoreChannel:
    """Writes what a task reports straight into the store, and finds revokes there."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self._store = store
        self._lease = lease

    def beat(self, progress: dict[str, Any] | None) -> None:
        self._heed(self._store.broker.report([Report(self._lease, progress)], worker=WORKER))

    def stopped_by(self) -> StoppedBy:
        return ""

    def extend(self, seconds: float) -> None:
        self._heed(self._store.broker.renew([self._lease], lease_seconds=seconds))

    def push(self, pushes: Sequence[Push]) -> list[Receipt]:
        return self._store.broker.push(pushes)

    def steps(self, task_id: str) -> list[Step]:
        return self._store.steps.all(task_id)

    def record_step(self, lease: Lease, name: str, payload: msgspec.Raw) -> bool:
        return self._store.steps.record(lease, name, payload)

    def records(self, task_ids: Sequence[str]) -> dict[str, StoredValue]:
        found = self._store.results.get(task_ids, past_retention=True)
        return {id: stored_value(record) for id, record in found.items()}

    def _heed(self, refused: list[Lease]) -> None:
        if refused:
            raise TaskRevoked("the lease was lost")
        revoke = self._store.revokes.get([self._lease.id]).get(self._lease.id)
        if revoke is not None and revoke.terminate:
            raise TaskRevoked(revoke.reason)
