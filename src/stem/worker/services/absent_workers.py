"""Cancel expired tasks in the queues of workers that are gone. A claim ends what has expired, and nobody claims from these."""

import logging
from datetime import UTC, datetime

from stem.contracts.store import Store
from stem.core import envelope as envelopes
from stem.core.decisions.routing import is_queue_of_worker
from stem.core.delivery import Peeked
from stem.core.errors import EnvelopeUnreadable

log = logging.getLogger("stem.worker")

MOST_AT_ONCE = 1000


def cancel_expired(store: Store) -> None:
    """What has not expired stays: a worker that starts under the same name runs it. Raises StemError."""
    depths = {name: depth for name, depth in store.broker.depth().items() if is_queue_of_worker(name)}
    waiting = [name for name, depth in depths.items() if depth.ready or depth.delayed]
    if not waiting:
        return
    pulses, now = store.heartbeats.all(), datetime.fromtimestamp(store.upkeep.now(), UTC)
    for queue in waiting:
        if any(pulse.heartbeat.serves(queue) for pulse in pulses):
            continue
        tasks = store.broker.peek(queue, limit=MOST_AT_ONCE)
        expired = _never_replayed(store, [task.id for task in tasks if _is_expired(task, now)])
        if expired and (cancelled := store.broker.cancel(expired, reason="expired: its worker did not come back")):
            log.info("broadcast.expired queue=%s count=%d: its worker did not come back", queue, len(cancelled))


def _is_expired(task: Peeked, now: datetime) -> bool:
    try:
        expires_at = envelopes.decode(task.body).expires_at
    except EnvelopeUnreadable:
        return False  # its worker parks it
    return expires_at is not None and expires_at <= now


def _never_replayed(store: Store, ids: list[str]) -> list[str]:
    """A replay takes the expiry back, and the body still has it."""
    records = store.results.get(ids) if ids else {}
    return [id for id in ids if id in records and "replayCount" not in records[id].meta]
