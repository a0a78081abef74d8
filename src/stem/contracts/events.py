"""The log of everything that happened, in the order in which readers may see it."""

from abc import ABC, abstractmethod

from stem.core.event import Event


class Events(ABC):
    """Bounded by count and age (retention). A reader that follows offsets sees each event that is kept exactly once, in
    order, also when writers commit late and out of turn."""

    @abstractmethod
    def read(self, after: str | None, *, limit: int) -> list[Event]:
        """Events that follow the offset; None: from the oldest kept."""

    @abstractmethod
    def head(self) -> str | None:
        """The offset of the newest event a reader may see; None for an empty log."""

    @abstractmethod
    def wait(self, after: str | None, *, timeout_seconds: float) -> bool:
        """Sleep until there may be an event after the offset, or the time is up; True for the former."""
