"""Heartbeats of the running workers."""

from abc import ABC, abstractmethod

from stem.core.heartbeat import Heartbeat, Pulse


class Heartbeats(ABC):
    """The latest heartbeat of each worker, kept until it expires."""

    @abstractmethod
    def beat(self, heartbeat: Heartbeat, *, ttl_seconds: float) -> None:
        """Replace the worker's heartbeat. It expires `ttl_seconds` from now."""

    @abstractmethod
    def all(self) -> list[Pulse]:
        """All heartbeats that have not expired, by worker id, each with its age by the store's clock."""

    @abstractmethod
    def forget(self, worker_id: str) -> bool:
        """Remove the heartbeat of a worker that stops. False if there was none."""
