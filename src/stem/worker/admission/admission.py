"""Admit claimed tasks: those that may run go to the pool, the others to the settler with the reason."""

from collections.abc import Sequence
from signal import SIGTERM

from stem.core.decisions.routing import is_same_or_tenant_queue
from stem.core.delivery import Delivery, Ending
from stem.core.outcome import Dead
from stem.core.record import TaskError
from stem.worker.admission.at_most_once import NO_FREE_ISOLATE, AtMostOnce
from stem.worker.admission.revoke_follower import RevokeFollower
from stem.worker.admission.throttle import Throttle
from stem.worker.ending_signals import announce
from stem.worker.pool.in_flight import InFlightTask, InFlightTasks
from stem.worker.pool.pool import Pool
from stem.worker.services.lease_renewer import LeaseRenewer
from stem.worker.services.settler import Settler


class Admission:
    """Checks, in this order: the signed queue, revokes, fleet-wide limits, at-most-once locks."""

    def __init__(
        self,
        *,
        queues: Sequence[str],
        signs_tasks: bool,
        revokes: RevokeFollower,
        throttle: Throttle,
        at_most_once: AtMostOnce,
        in_flight: InFlightTasks,
        pool: Pool,
        lease_renewer: LeaseRenewer,
        settler: Settler,
        worker: str,
    ) -> None:
        self._queues = queues
        self._signs_tasks = signs_tasks
        self._revokes = revokes
        self._throttle = throttle
        self._at_most_once = at_most_once
        self._in_flight = in_flight
        self._pool = pool
        self._lease_renewer = lease_renewer
        self._settler = settler
        self._worker = worker

    def admit(self, deliveries: list[Delivery]) -> bool:
        """Pass each delivery on. False if one was refused because no isolate is free: do not claim ahead."""
        misplaced: list[tuple[InFlightTask, Ending]] = []
        if self._signs_tasks:
            deliveries, misplaced = _park_misplaced(deliveries, self._queues)
        deliveries, revoked = self._revokes.admit(deliveries)
        tasks, throttled = self._throttle.admit(deliveries)
        tasks, locked = self._at_most_once.admit(tasks)
        if tasks:
            self._in_flight.add(tasks)
            self._pool.offer(tasks)
            self._cancel_revoked(tasks)
        if misplaced or revoked or throttled or locked:
            refused = misplaced + revoked + throttled + locked
            for task, _ in refused:
                task.is_decided_here = True
            self._settler.add(refused)
            announce(refused, self._worker)
        self._lease_renewer.renew_short(tasks)  # last: it waits for the store, and may fail
        return not any(ending.settlement is NO_FREE_ISOLATE for _, ending in locked)

    def _cancel_revoked(self, tasks: list[InFlightTask]) -> None:
        """Cancel tasks revoked while limits and locks were checked: when the revoke was applied, they were not in flight."""
        revoked = self._revokes.revoked
        late = [task.lease.id for task in tasks if revoked.is_revoked(task.lease.id)] if len(revoked) else []
        if late:
            self._pool.revoke(dict.fromkeys(late, "revoked"), terminate=False, signal_number=SIGTERM)


def _park_misplaced(
    deliveries: list[Delivery], served: Sequence[str]
) -> tuple[list[Delivery], list[tuple[InFlightTask, Ending]]]:
    """Split into deliveries that belong to a served queue, or to a tenant of one, and the endings of the others. A signed task
    that was moved to another queue is parked: the signature covers the queue."""
    misplaced = {
        queue
        for queue in {delivery.queue for delivery in deliveries}
        if not any(is_same_or_tenant_queue(each, queue) for each in served)
    }
    if not misplaced:
        return deliveries, []
    rest = [delivery for delivery in deliveries if delivery.queue not in misplaced]
    return rest, [(InFlightTask(each, None), _parked(each)) for each in deliveries if each.queue in misplaced]


def _parked(delivery: Delivery) -> Ending:
    message = (
        f"Task {delivery.lease.id} belongs to queue {delivery.queue!r} and was moved to one that this worker serves."
    )
    return Ending(delivery.lease, Dead("signature-invalid", TaskError("SignatureInvalid", message)))
