"""Warn about queues that hold tasks and have no worker, such as those left behind when a queue is renamed."""

import logging
from collections.abc import Iterable

from stem.contracts.store import Store
from stem.core.decisions.routing import is_queue_of_worker, is_same_or_tenant_queue
from stem.core.errors import StemError

log = logging.getLogger("stem.worker")


def warn_of_unserved(store: Store, queues: Iterable[str]) -> None:
    """`queues`: those that this worker serves, and those of the app's tasks, which other workers may serve."""
    try:
        served = {*queues, *(queue for pulse in store.heartbeats.all() for queue in pulse.heartbeat.queues)}
        waiting = {name: depth.ready + depth.delayed for name, depth in store.broker.depth().items()}
    except StemError as error:
        log.warning("queue.check_failed: the store could not be asked which queues have no worker: %s", error)
        return
    for name, count in sorted(waiting.items()):
        # What waits for a worker that is gone expires by itself.
        if count and not is_queue_of_worker(name) and not any(is_same_or_tenant_queue(queue, name) for queue in served):
            log.warning(
                "queue.unserved queue=%s waiting=%d: no worker serves this queue and no task of the app names it; "
                "serve it with --queue %s",
                name,
                count,
                name,
            )
