"""The workers that have lately been heard of."""

from abc import ABC, abstractmethod

from stem.core.heartbeat import Heartbeat, Pulse


class Heartbeats(ABC):
    @abstractmethod
    def beat(self, heartbeat: Heartbeat, *, ttl_seconds: float) -> None:
        """Replace the worker's last one; forgotten `ttl_seconds` from now."""

    @abstractmethod
    def all(self) -> list[Pulse]:
        """Those not forgotten, by worker id, each with its age in store time."""

    @abstractmethod
    def forget(self, worker_id: str) -> bool:
        """A worker said goodbye. False: it was not known."""
