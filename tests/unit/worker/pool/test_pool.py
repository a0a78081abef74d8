"""The pool's calls meet in its thread in any order."""

import os
import selectors
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from stem.backends import connect
from stem.client.stores import RevokeStore
from stem.contracts.task_logs import LogLine
from stem.control.sealing import Trust
from stem.core.delivery import Delivery, Ending, Lease, Report
from stem.core.outcome import Cancelled
from stem.core.revoke import RevokeRecord
from stem.core.settings.app import Settings
from stem.runtime.keys import Keyring
from stem.worker.admission.admission import Admission
from stem.worker.admission.at_most_once import AtMostOnce
from stem.worker.admission.revoke_follower import RevokeFollower
from stem.worker.admission.throttle import Throttle
from stem.worker.fork.client import ForkServerClient, IsolateHandle
from stem.worker.isolate import wire
from stem.worker.pool.in_flight import InFlightTask, InFlightTasks
from stem.worker.pool.isolates import IsolateListener, Isolates
from stem.worker.pool.pool import Pool
from stem.worker.pool.watchdog import Limits
from stem.worker.services.lease_renewer import LeaseRenewer
from stem.worker.services.settler import Settler
from support.builders import a_push


class Endings:
    """Keeps the endings that a pool reports."""

    def __init__(self) -> None:
        self.found: list[tuple[InFlightTask, Ending]] = []

    def tasks_ended(self, endings: list[tuple[InFlightTask, Ending]]) -> None:
        self.found += endings

    def tasks_started(self, tasks: list[InFlightTask]) -> None: ...

    def progress_made(self, reports: list[tuple[InFlightTask, Report]]) -> None: ...

    def request_received(self, handle: IsolateHandle, request: wire.Request, body: bytes) -> None: ...

    def lease_extended(self, task: InFlightTask, seconds: float) -> None: ...

    def capacity_changed(self) -> None: ...

    def backlog_stalled(self) -> None: ...

    def isolate_recycled(self, pid: int, reason: str) -> None: ...

    def isolates_failed(self, sentence: str) -> None: ...

    def output_read(self, lines: list[LogLine]) -> None: ...


@pytest.fixture
def pool() -> Iterator[Pool]:
    """Over threads that never say that they are ready, so that every task waits."""
    theirs: list[int] = []

    def start(descriptors: list[int], slots: int) -> Callable[[], None]:
        theirs.extend(descriptors)
        return lambda: None

    def make_client() -> ForkServerClient:
        raise AssertionError("no fork server is needed")

    def make_isolates(listener: IsolateListener, selector: selectors.BaseSelector) -> Isolates:
        return Isolates(
            listener,
            selector,
            make_client,
            concurrency=1,
            async_concurrency=1,
            inline_concurrency=1,
            start_inline_threads=start,
        )

    yield Pool(make_isolates, InFlightTasks(), Limits(None, None))
    for descriptor in theirs:
        os.close(descriptor)


def test_a_task_that_is_revoked_on_its_way_into_the_pool_ends_once_and_never_runs(pool: Pool) -> None:
    endings, task = Endings(), InFlightTask(Delivery(Lease("t1", 1), "add", "default", 0, 0, b"{}"), None)
    pool.start(None, endings)
    pool._in_flight.add([task])
    revoked = pool.revoke({"t1": "mistaken"}, terminate=False, signal_number=15)
    assert revoked.result(10) == {"t1": "cancelled"}
    pool.offer([task])
    pool.drain("the worker is shutting down")
    pool.stop()
    assert [ending.settlement for _, ending in endings.found] == [Cancelled("mistaken")]
    assert pool.load == 0


class RevokedMeanwhile(Throttle):
    """An operator revokes each task while the limiter is asked."""

    follower: RevokeFollower

    def admit(self, deliveries: list[Delivery]) -> tuple[list[InFlightTask], list[tuple[InFlightTask, Ending]]]:
        self.follower.apply(
            [RevokeRecord(task_id=each.lease.id, version=1, created_at=datetime.now(UTC)) for each in deliveries]
        )
        return super().admit(deliveries)


def test_a_task_that_is_revoked_while_it_is_admitted_is_cancelled(pool: Pool) -> None:
    store, endings = connect("memory://", Settings()), Endings()
    revokes = RevokeStore(url=store.url, revokes=store.revokes, now=store.upkeep.now, close=lambda: None)
    follower = RevokeFollower(revokes, ["default"], "w", Trust(Keyring({}), ""))
    follower.apply([RevokeRecord(task_id="another", version=1, created_at=datetime.now(UTC))])
    throttle = RevokedMeanwhile(store.limiter, {}, lease_seconds=60.0, fails_open=True)
    throttle.follower = follower
    at_most_once = AtMostOnce(store, "w", kept_seconds=60.0, capacity=lambda task: 1)
    admission = Admission(
        queues=["default"],
        signs_tasks=False,
        revokes=follower,
        throttle=throttle,
        at_most_once=at_most_once,
        in_flight=pool._in_flight,
        pool=pool,
        lease_renewer=LeaseRenewer(store, pool, pool._in_flight, 60.0),
        settler=Settler(at_most_once, "w", lambda tasks: None, lambda batch, refused: None),
        worker="w",
    )
    pool.start(None, endings)
    store.broker.push([a_push("t1")])
    assert admission.admit(store.broker.claim(["default"], limit=1, lease_seconds=60.0))
    pool.drain("the worker is shutting down")
    pool.stop()
    assert [ending.settlement for _, ending in endings.found] == [Cancelled("revoked")]
    store.upkeep.close()
