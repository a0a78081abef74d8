"""Mailboxes and broadcast channels for the control plane: small messages that expire."""

from abc import ABC, abstractmethod


class Subscription(ABC):
    """One reader of a broadcast channel."""

    @abstractmethod
    def receive(self, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        """Messages that this subscription has not returned yet, oldest first. Sleeps until there is one or the time is up."""

    @abstractmethod
    def close(self) -> None:
        """Stop reading. Twice is a no-op."""


class Mail(ABC):
    """A message that has expired is never delivered, and leaves nothing behind once pruned."""

    @abstractmethod
    def send(self, box: str, message: bytes, *, ttl_seconds: float) -> None:
        """Put a message into the box, from which one receiver takes it."""

    @abstractmethod
    def receive(self, box: str, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        """Take messages out of the box, oldest first, each to one receiver only. Sleeps until there is one or the time is up."""

    @abstractmethod
    def publish(self, channel: str, message: bytes, *, ttl_seconds: float) -> None:
        """Send a message to every open subscription of the channel, once each."""

    @abstractmethod
    def subscribe(self, channel: str) -> Subscription:
        """Read what is published on the channel from now on."""
