"""A worker's heartbeat, with its queues, concurrency and counters."""

from typing import Annotated, Any

import msgspec

from stem.core.control import WorkerId
from stem.core.decisions.routing import is_same_or_tenant_queue, queue_of_worker

SCHEDULER = "scheduler"  # of the extra `kind`; workers have none
Pid = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    worker_id: WorkerId
    namespace: str
    host: str
    pid: Pid
    uptime_seconds: float
    concurrency: int
    in_flight: int
    queues: list[str]
    queue_depth: int = 0
    memory_bytes: int = 0
    load: float = 0.0
    counters: dict[str, int] = {}
    extras: dict[str, Any] = {}

    @property
    def runs_tasks(self) -> bool:
        """A scheduler does not, nor does a worker that is about to stop."""
        return self.extras.get("kind") != SCHEDULER and self.extras.get("state") != "draining"

    def serves(self, queue: str) -> bool:
        """Whether the worker claims from the queue, or from the whole of which it is a tenant's part."""
        return queue == queue_of_worker(self.worker_id) or any(
            is_same_or_tenant_queue(served, queue) for served in self.queues
        )

    def may_have(self, task: str) -> bool:
        """False if the worker lists its tasks, and this is none of them."""
        tasks = self.extras.get("tasks")
        return not isinstance(tasks, dict) or not tasks or task in tasks


class Pulse(msgspec.Struct, frozen=True):
    """A stored heartbeat. Its age is measured by the store's clock."""

    heartbeat: Heartbeat
    age_seconds: float


def read_heartbeat(text: bytes | str) -> Heartbeat | None:
    """Decode a heartbeat; None if it is malformed, because anyone may have written to the store."""
    try:
        return _heartbeats.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # ValueError: broken UTF-8
        return None


_heartbeats = msgspec.json.Decoder(Heartbeat)
