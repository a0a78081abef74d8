"""Where tasks are signed nobody moves them: what was claimed from a queue that it does not belong to is parked."""

from collections.abc import Sequence

from stem.core.delivery import Delivery, Ending
from stem.core.outcome import Dead
from stem.core.record import TaskError
from stem.core.routing import is_of
from stem.worker.held import Held


def sort(deliveries: list[Delivery], served: Sequence[str]) -> tuple[list[Delivery], list[tuple[Held, Ending]]]:
    """What belongs to the queues that are served, or to a tenant's of them, and the endings of the rest."""
    strange = {
        queue for queue in {delivery.queue for delivery in deliveries} if not any(is_of(each, queue) for each in served)
    }
    if not strange:
        return deliveries, []
    rest = [delivery for delivery in deliveries if delivery.queue not in strange]
    return rest, [(Held(each, None), _parked(each)) for each in deliveries if each.queue in strange]


def _parked(delivery: Delivery) -> Ending:
    message = (
        f"Task {delivery.lease.id} belongs to queue {delivery.queue!r} and was moved to one that this worker serves."
    )
    return Ending(delivery.lease, Dead("signature-invalid", TaskError("SignatureInvalid", message)))
