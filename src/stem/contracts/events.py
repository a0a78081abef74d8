"""The event log: every change of a task and of a worker, and what operators did, in one order for all readers."""

from abc import ABC, abstractmethod
from typing import Any

import msgspec

from stem.core.errors import UsageError
from stem.core.event import Event
from stem.core.lifecycle import NOTED_KINDS, EventKind
from stem.core.text.encode import encode_json

MAX_NOTE_BYTES = 16 * 1024


class Events(ABC):
    """The log is bounded by count and age (retention). A reader that follows offsets sees each kept event exactly once and in
    order, even when writers commit late or out of turn."""

    @abstractmethod
    def read(self, after: str | None, *, limit: int) -> list[Event]:
        """Events after the offset, in order; None: from the oldest kept."""

    @abstractmethod
    def head(self) -> str | None:
        """The offset of the newest event that a reader may see; None for an empty log."""

    @abstractmethod
    def wait(self, after: str | None, *, timeout_seconds: float) -> bool:
        """Sleep until there may be an event after the offset (True) or the time is up (False)."""

    def note(self, kind: EventKind, *, worker: str, data: dict[str, Any]) -> None:
        """Log an event of a worker or of an operator, who has no worker (`worker=""`), in order among the others.

        `task_id`, `name` and `queue` are empty, `enqueued_at` equals `at`.

        Twice is two events. Raises UsageError for a kind that belongs to tasks, and for data that is not JSON or takes more than
        16 KiB of it.
        """
        if kind not in NOTED_KINDS:
            raise UsageError(
                f"{kind} tells of a task, and is logged by the change it tells of; note one of "
                f"{', '.join(sorted(NOTED_KINDS))}."
            )
        self._note(kind, worker, encode_json(data, what="the note", limit_bytes=MAX_NOTE_BYTES))

    @abstractmethod
    def _note(self, kind: EventKind, worker: str, data: msgspec.Raw) -> None:
        """Log the event at the store's time and wake waiting readers. `data` is a JSON object."""
