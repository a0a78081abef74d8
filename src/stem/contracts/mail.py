"""Mailboxes and broadcast for the control plane: small messages that expire, and never fire late."""

from abc import ABC, abstractmethod


class Subscription(ABC):
    @abstractmethod
    def receive(self, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        """Messages not yet seen here, oldest first; sleeps until there is one or the time is up."""

    @abstractmethod
    def close(self) -> None: ...


class Mail(ABC):
    """An expired message is never delivered and leaves nothing behind once pruned."""

    @abstractmethod
    def send(self, box: str, message: bytes, *, ttl_seconds: float) -> None: ...

    @abstractmethod
    def receive(self, box: str, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        """Take messages out, oldest first, each to one receiver only; sleeps until there is one or the time is up."""

    @abstractmethod
    def publish(self, channel: str, message: bytes, *, ttl_seconds: float) -> None:
        """Reaches every open subscription once, however many deliveries its owner holds."""

    @abstractmethod
    def subscribe(self, channel: str) -> Subscription:
        """Sees what is published from now on."""
