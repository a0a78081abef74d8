"""Park signed tasks that were moved to another queue: the signature covers the queue."""

from collections.abc import Sequence

from stem.core.decisions.routing import is_same_or_tenant_queue
from stem.core.delivery import Delivery, Ending
from stem.core.outcome import Dead
from stem.core.record import TaskError
from stem.worker.pool.in_flight import InFlightTask


def admit(
    deliveries: list[Delivery], served: Sequence[str]
) -> tuple[list[Delivery], list[tuple[InFlightTask, Ending]]]:
    """Split into deliveries that belong to a served queue, or to a tenant of one, and the endings of the others."""
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
