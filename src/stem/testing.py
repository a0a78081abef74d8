"""For the tests of your own code: run tasks here and now, with a clock that you move.

with eager(app) as world:
    handle = send_mail.enqueue("ada@example.org")  # runs at once, through JSON and the same state machine
    world.clock.advance(60)  # retries and delayed tasks that come due run in their turn
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import uuid4

from stem.backends import memory
from stem.client.admit import Admitted, admit
from stem.client.app import Stem
from stem.client.invoke import invoke
from stem.core.delivery import Delivery, Ending
from stem.core.settle import Policy, settle
from stem.runtime.clock import FakeClock as FakeClock

WORKER = "stem-testing"
LEASE_SECONDS = 300.0


class World:
    """Where an app's tasks live in eager mode: a memory store and a clock of its own."""

    def __init__(self, app: Stem) -> None:
        self.clock = MovedClock(self)
        self._app = app

    def run_pending(self, *, queues: Sequence[str] | None = None, limit: int | None = None) -> int:
        return run_pending(self._app, queues=queues, limit=limit)

    def next_due_at(self) -> float | None:
        """When the next waiting task is due, in seconds since 1970."""
        broker = self._app.store.broker
        waiting = [peeked for queue in broker.depth() for peeked in broker.peek(queue, limit=1)]
        return min((peeked.due_at.timestamp() for peeked in waiting), default=None)


class MovedClock(FakeClock):
    """Moving it runs what comes due on the way, each task at its own moment."""

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
    """Within it, enqueue runs the task at once; the app's own store is untouched, and is back afterwards.

    A task that fails is retried when the clock is moved past its delay (without jitter). Waiting for a task that has not
    ended raises WaitTimeout at once, for nothing would move meanwhile. A `connection=` is left out of account.
    """
    world = World(app)
    store = memory.connect(f"memory://eager-{uuid4().hex}", app.settings, clock=world.clock)
    with app.link.replaced(store, world.clock, world.run_pending):
        yield world


def run_pending(app: Stem, *, queues: Sequence[str] | None = None, limit: int | None = None) -> int:
    """Run, in this thread, what is due in these queues (default: all) until nothing is, or `limit` attempts have run;
    returns how many."""
    broker, ran = app.store.broker, 0
    while limit is None or ran < limit:
        names = list(broker.depth()) if queues is None else queues
        deliveries = broker.claim(names, limit=1, lease_seconds=LEASE_SECONDS) if names else []
        if not deliveries:
            break
        run(app, deliveries[0])
        ran += 1
    return ran


def run(app: Stem, delivery: Delivery) -> None:
    """One attempt: admit, invoke, decide, write."""
    broker, admitted = app.store.broker, admit(app, delivery)
    if isinstance(admitted, Admitted):
        broker.start([delivery.lease], worker=WORKER)
        started_at = time.monotonic()
        outcome, policy = invoke(admitted), admitted.policy
        run_seconds = time.monotonic() - started_at
        settlement = settle(outcome, policy, attempt=delivery.attempt, deaths=delivery.deaths, roll=0.0)
        broker.settle([Ending(delivery.lease, settlement, run_seconds)], worker=WORKER)
    else:
        settlement = settle(admitted, Policy(), attempt=delivery.attempt, deaths=delivery.deaths, roll=0.0)
        broker.settle([Ending(delivery.lease, settlement)], worker=WORKER)
