"""Isolates as the pool sees them: with the memory and sockets of a real isolate, and no process behind them."""

import os
import socket
from itertools import count
from typing import Protocol

from stem.core.delivery import Delivery, Lease
from stem.worker.fork.client import make_handle
from stem.worker.fork.manifest import TaskFacts
from stem.worker.isolate import wire
from stem.worker.isolate.status_block import StatusBlock
from stem.worker.pool.in_flight import InFlightTask
from stem.worker.pool.isolate_state import IsolateState

_ids = count(1)


class ChildEnds:
    """The other ends: what the isolate's process would hold."""

    def __init__(self, descriptors: list[int], slots: int) -> None:
        inbox, stream, self.output, status = descriptors
        self.inbox, self.stream = socket.socket(fileno=inbox), socket.socket(fileno=stream)
        self.status = StatusBlock(status, slots)
        os.close(status)

    def receive(self) -> int:
        """Take a run from the inbox; its number."""
        return wire.read_run(self.inbox.recv(wire.PACKET_BYTES)).number

    def close(self) -> None:
        self.inbox.close()
        self.stream.close()
        os.close(self.output)
        self.status.close()


class MakeIsolate(Protocol):
    def __call__(
        self, slots: int = 1, *, is_inline: bool = False, max_tasks: int | None = None
    ) -> tuple[IsolateState, ChildEnds]: ...


def new_isolate(slots: int, is_inline: bool, max_tasks: int | None) -> tuple[IsolateState, ChildEnds]:
    handle, descriptors = make_handle(slots, is_inline=is_inline)
    isolate = IsolateState(handle, slots, max_tasks)
    isolate.is_ready = True
    return isolate, ChildEnds(descriptors, slots)


def new_task(*, name: str = "it", is_async: bool = False, deaths: int = 0, isolate: bool = True) -> InFlightTask:
    facts = TaskFacts(
        name=name, queue="default", is_async=is_async, isolate=isolate, retry=None, rate=None, places=None
    )
    delivery = Delivery(Lease(f"task-{next(_ids)}", 1), name, "default", 0, deaths, b"{}")
    return InFlightTask(delivery, facts)


def assign(isolate: IsolateState, *tasks: InFlightTask) -> None:
    """As the pool does it."""
    for task in tasks:
        assert isolate.handle.send(wire.encode_run(task.number, task.delivery))
        if not isolate.assigned:
            isolate.is_shared = task.is_async or isolate.handle.is_inline
            isolate.holds_suspect = task.delivery.deaths > 0
        isolate.assigned[task.number] = task
