"""What is to be said of each queue: how much it holds, who serves it, and whether it is paused."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from stem.core.delivery import Depth
from stem.core.pause import is_pause, pause_id
from stem.core.routing import is_of

if TYPE_CHECKING:
    from stem.contracts.revokes import Revokes
    from stem.contracts.store import Store
    from stem.core.heartbeat import Pulse

_PAGE = 1000


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """`paused` is the scope of the pause: empty, `*` for all workers, or names (see core.pause)."""

    name: str
    depth: Depth
    workers: tuple[str, ...]
    paused: str

    @property
    def remark(self) -> str:
        """What keeps its tasks from running, if anything does."""
        if self.paused:
            return "paused" if self.paused == "*" else f"paused for {self.paused}"
        return "" if self.workers else "no worker serves it"

    def shape(self) -> dict[str, Any]:
        counts = {name: getattr(self.depth, name) for name in ("ready", "delayed", "running", "dead")}
        return {"queue": self.name, **counts, "workers": list(self.workers), "paused": self.paused or None}


def queue_states(store: "Store", marks: "Revokes") -> list[QueueState]:
    """Every queue that holds a task, that a live worker serves, or that is paused; by name."""
    depths, pulses = store.broker.depth(), store.heartbeats.all()
    served = {queue for pulse in pulses for queue in pulse.heartbeat.queues}
    paused = paused_queues(marks)
    return [
        QueueState(
            name=name,
            depth=depths.get(name, Depth()),
            workers=tuple(serving(name, pulses)),
            paused=next((scope for queue, scope in paused.items() if is_of(queue, name)), ""),
        )
        for name in sorted({*depths, *served, *paused})
    ]


def paused_queues(marks: "Revokes") -> dict[str, str]:
    """The scope of each pause, by queue."""
    prefix = pause_id("")
    version, found = 0, dict[str, str]()
    while records := marks.since(version, limit=_PAGE):
        version = records[-1].version
        found |= {each.task_id.removeprefix(prefix): each.reason for each in records if is_pause(each.task_id)}
    return found


def serving(queue: str, pulses: "Iterable[Pulse]") -> list[str]:
    """The workers that serve it, also as a tenant's part of a queue of theirs."""
    return [
        pulse.heartbeat.worker_id for pulse in pulses if any(is_of(served, queue) for served in pulse.heartbeat.queues)
    ]


def unknown_queues(queues: Iterable[str], states: Iterable[QueueState]) -> list[str]:
    names = [state.name for state in states]
    return [queue for queue in queues if not any(is_of(queue, name) for name in names)]


COLUMNS = ("queue", "ready", "delayed", "running", "dead", "workers", "remark")
SHRINK = ("queue", "remark")


def row(state: QueueState) -> tuple[object, ...]:
    depth = state.depth
    return state.name, depth.ready, depth.delayed, depth.running, depth.dead, len(state.workers), state.remark
