"""Durable steps of a task, and events sent to it: what an attempt has done already, and what it waits for."""

from abc import ABC, abstractmethod
from datetime import datetime

import msgspec

from stem.core.delivery import Lease

EVENT = "event:"  # begins the names of steps that are events


class Step(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a step, or the data of an event, as JSON."""

    name: str
    payload: msgspec.Raw
    at: datetime


class Steps(ABC):
    """Steps belong to a task, whatever the attempt, and stay across retries and replays. They go with its record."""

    @abstractmethod
    def record(self, lease: Lease, name: str, payload: msgspec.Raw) -> bool:
        """Keep the result of a step, and return False, with nothing written, if the lease is no longer valid.

        The first result of a name stays. Event `step`, with the name as `data["step"]`, the first time only.
        """

    @abstractmethod
    def all(self, task_id: str) -> list[Step]:
        """The steps of a task and the events sent to it, in the order in which they were recorded."""

    @abstractmethod
    def send(self, task_id: str, event: str, data: msgspec.Raw) -> bool:
        """Keep an event for a task as the step `event:NAME`, and return False, with nothing written, if the task is unknown or
        has ended.

        The first event of a name stays; sending it again changes nothing and returns True. A task that waits for this event
        (`Requeue.event`) is due at once; one that has not begun to wait will find it.
        """
