"""Named locks with a lease and a fencing number."""

from abc import ABC, abstractmethod


class Locks(ABC):
    """A lock is held by one owner until it is released or its time is up. Each call is atomic."""

    @abstractmethod
    def acquire(self, name: str, *, owner: str, ttl_seconds: float) -> int | None:
        """Take the lock and return its fencing number; None if another owner holds it.

        The number grows with every change of owners. For its own owner the lock is renewed and keeps its number.
        """

    @abstractmethod
    def renew(self, name: str, *, owner: str, ttl_seconds: float) -> bool:
        """Hold the lock for `ttl_seconds` from now. False if it has expired or is another's."""

    @abstractmethod
    def release(self, name: str, *, owner: str) -> bool:
        """Give the lock up. False, with nothing changed, if it has expired or is another's."""

    @abstractmethod
    def owner(self, name: str) -> str | None:
        """The owner that holds the lock now, if there is one."""
