"""The log of everything that happened, in the order in which readers may see it."""

from abc import ABC, abstractmethod
from typing import Any

import msgspec

from stem.core.encode import encode_json
from stem.core.errors import UsageError
from stem.core.event import Event
from stem.core.lifecycle import WORKER_KINDS, EventKind

MAX_NOTE_BYTES = 16 * 1024


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

    def note(self, kind: EventKind, *, worker: str, data: dict[str, Any]) -> None:
        """Log a worker's own doing. Ordered among the others; task_id, name and queue are empty, enqueued_at equals at.

        Twice is two events. Raises UsageError for a kind that tells of a task, and for data that is not JSON or takes
        more than 16 KiB of it."""
        if kind not in WORKER_KINDS:
            raise UsageError(
                f"{kind} tells of a task, and is logged by the change it tells of; note one of "
                f"{', '.join(sorted(WORKER_KINDS))}."
            )
        self._note(kind, worker, encode_json(data, what="the note", limit_bytes=MAX_NOTE_BYTES))

    @abstractmethod
    def _note(self, kind: EventKind, worker: str, data: msgspec.Raw) -> None:
        """Log it at the store's time, and wake the readers that wait; `data` is the JSON of an object."""
