"""Endings that the store has taken are counted once, in a thread of their own, and never end the worker."""

from collections.abc import Sequence
from threading import Event

import msgspec
import pytest

from stem.core.delivery import Delivery, Ending, Lease
from stem.core.outcome import Cancelled, Done, Settlement
from stem.worker.pool.in_flight import InFlightTask
from stem.worker.services.accounting import Accounting, Batch

DONE = Done(msgspec.Raw(b"1"))


def batch(*settlements: Settlement) -> list[tuple[InFlightTask, Ending]]:
    leases = [Lease(f"t{number}", number) for number in range(len(settlements))]
    return [
        (InFlightTask(Delivery(lease, "a", "default", 0, 0, b"{}"), None), Ending(lease, settlement, 0.1))
        for lease, settlement in zip(leases, settlements, strict=True)
    ]


def ids(batch: Batch) -> list[str]:
    return [ending.lease.id for _, ending in batch]


def test_each_ending_is_counted_by_kind_and_a_refused_one_as_refused() -> None:
    done: list[str] = []
    counted: list[str] = []
    accounting = Accounting(lambda pairs: done.extend(ids(pairs)), [lambda pairs: counted.extend(ids(pairs))])
    accounting.start()
    accounting.add(batch(DONE, DONE, Cancelled("revoked"), DONE), {"t1"})
    accounting.stop()
    assert dict(accounting.counters) == {"succeeded": 2, "revoked": 1, "refused": 1}
    assert (done, counted) == (["t0", "t3"], ["t0", "t2", "t3"])


def test_the_settler_does_not_wait_for_the_count_of_a_batch() -> None:
    may_count = Event()
    accounting = Accounting(lambda pairs: None, [lambda pairs: wait(may_count)])
    accounting.start()
    for _ in range(3):
        accounting.add(batch(DONE), set())
    assert not accounting.counters
    may_count.set()
    accounting.stop()
    assert accounting.counters["succeeded"] == 3


def test_a_count_that_fails_is_logged_and_the_next_batch_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    failures = [ValueError("no")]

    def fail_once(pairs: Sequence[tuple[InFlightTask, Ending]]) -> None:
        if failures:
            raise failures.pop()

    accounting = Accounting(lambda pairs: None, [fail_once])
    accounting.start()
    accounting.add(batch(DONE), set())
    accounting.add(batch(DONE, DONE), set())
    accounting.stop()
    assert accounting.counters["succeeded"] == 2
    assert "accounting.failed endings=1" in caplog.text


def wait(event: Event) -> None:
    assert event.wait(10)
