"""Count the tasks of a worker's queues, those of tenants with them."""

from collections.abc import Sequence

from stem.contracts.broker import Broker
from stem.core.decisions.routing import is_same_or_tenant_queue
from stem.core.delivery import Depth


def queue_depths(broker: Broker, queues: Sequence[str], *, is_fair: bool) -> dict[str, Depth]:
    """Return the counts by queue. With fair share the queues of tenants count with the one that they belong to."""
    if not is_fair:
        return broker.depth(queues)
    found = broker.depth()
    return {
        queue: _sum([depth for name, depth in found.items() if is_same_or_tenant_queue(queue, name)])
        for queue in queues
    }


def _sum(depths: Sequence[Depth]) -> Depth:
    return Depth(**{name: sum(getattr(each, name) for each in depths) for name in Depth.__struct_fields__})
