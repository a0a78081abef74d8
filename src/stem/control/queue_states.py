"""Describe each queue: how much it holds, which workers serve it, and whether it is paused."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from stem.core.decisions.routing import is_queue_of_worker, is_same_or_tenant_queue
from stem.core.delivery import Depth
from stem.core.pause import is_pause, pause_id

if TYPE_CHECKING:
    from stem.contracts.steering.revokes import Revokes
    from stem.contracts.store import Store
    from stem.core.heartbeat import Pulse

_NEWEST = 1000


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """`paused` is the scope of the pause: empty, `*` for all workers, or names (see core.pause)."""

    name: str
    depth: Depth
    workers: tuple[str, ...]
    paused: str

    @property
    def remark(self) -> str:
        """Say what keeps its tasks from running, if anything does."""
        if self.paused:
            return "paused" if self.paused == "*" else f"paused for {self.paused}"
        if self.workers:
            return ""
        return "its worker is not running" if is_queue_of_worker(self.name) else "no worker"

    def shape(self) -> dict[str, Any]:
        counts = {name: getattr(self.depth, name) for name in ("ready", "delayed", "blocked", "running", "dead")}
        return {"queue": self.name, **counts, "workers": list(self.workers), "paused": self.paused or None}


def queue_states(store: "Store", revokes: "Revokes", named: Iterable[str] = ()) -> list[QueueState]:
    """Return every queue that holds a task, that a live worker serves, or that is paused, by name. `named` are further
    queues to look up a pause of."""
    depths, pulses = store.broker.depth(), store.heartbeats.all()
    known = {*depths, *(queue for pulse in pulses for queue in pulse.heartbeat.queues)}
    paused = paused_queues(revokes, {*known, *named})
    return [
        QueueState(
            name=name,
            depth=depths.get(name, Depth()),
            workers=tuple(serving(name, pulses)),
            paused=next((scope for queue in _covering(name) if (scope := paused.get(queue))), ""),
        )
        for name in sorted({*known, *paused})
    ]


def paused_queues(revokes: "Revokes", names: Iterable[str]) -> dict[str, str]:
    """Return the scope of each pause, by queue.

    Pauses are kept among the revokes, of which there may be a million, so that not all are read: those of the given queues
    are looked up by id, and others are found if they are among the newest thousand records.
    """
    wanted = list(dict.fromkeys(pause_id(queue) for name in names for queue in _covering(name)))
    newest = revokes.since(max(0, revokes.version() - _NEWEST), limit=_NEWEST)
    records = [*revokes.get(wanted).values(), *(each for each in newest if is_pause(each.task_id))]
    return {each.task_id.removeprefix(pause_id("")): each.reason for each in records}


def _covering(name: str) -> list[str]:
    """The queues whose pause holds for this one: itself, and for a tenant's part of a queue the whole."""
    parts = name.split(":")
    return [":".join(parts[:count]) for count in range(1, len(parts) + 1)]


def serving(queue: str, pulses: "Iterable[Pulse]") -> list[str]:
    """Return the workers that serve the queue, or the whole of which it is a tenant's part."""
    return [pulse.heartbeat.worker_id for pulse in pulses if pulse.heartbeat.serves(queue)]


def unknown_queues(queues: Iterable[str], states: Iterable[QueueState]) -> list[str]:
    names = [state.name for state in states]
    return [queue for queue in queues if not any(is_same_or_tenant_queue(queue, name) for name in names)]


COLUMNS = ("queue", "ready", "delayed", "blocked", "running", "dead", "workers", "remark")
SHRINK = ("queue", "remark")


def row(state: QueueState) -> tuple[object, ...]:
    depth = state.depth
    counts = (depth.ready, depth.delayed, depth.blocked, depth.running, depth.dead)
    return (state.name, *counts, len(state.workers), state.remark)
