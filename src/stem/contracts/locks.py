"""Leased, fenced, named locks."""

from abc import ABC, abstractmethod


class Locks(ABC):
    @abstractmethod
    def acquire(self, name: str, *, owner: str, ttl_seconds: float) -> int | None:
        """A fencing number if the lock is free, expired, or the owner's own (then it is renewed and keeps its number); it
        grows with every change of hands. None: held by another."""

    @abstractmethod
    def renew(self, name: str, *, owner: str, ttl_seconds: float) -> bool:
        """False: not the owner's, or expired."""

    @abstractmethod
    def release(self, name: str, *, owner: str) -> bool:
        """False: not the owner's, or expired; nothing changed."""

    @abstractmethod
    def owner(self, name: str) -> str | None:
        """Who holds it now."""
