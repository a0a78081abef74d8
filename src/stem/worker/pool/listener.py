"""What the pool reports to the rest of the worker."""

from typing import Protocol

from stem.core.delivery import Ending, Report
from stem.worker.fork.client import IsolateHandle
from stem.worker.isolate import wire
from stem.worker.pool.in_flight import InFlightTask


class PoolListener(Protocol):
    """Receives what the pool reports, in the pool's thread; must not block."""

    def tasks_ended(self, endings: list[tuple[InFlightTask, Ending]]) -> None: ...

    def tasks_started(self, tasks: list[InFlightTask]) -> None: ...

    def progress_made(self, reports: list[tuple[InFlightTask, Report]]) -> None: ...

    def request_received(self, handle: IsolateHandle, request: wire.Request, body: bytes) -> None: ...

    def lease_extended(self, task: InFlightTask, seconds: float) -> None: ...

    def capacity_changed(self) -> None: ...

    def backlog_stalled(self) -> None: ...

    def isolate_recycled(self, pid: int, reason: str) -> None: ...

    def isolates_failed(self, sentence: str) -> None: ...
