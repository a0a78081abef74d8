"""Keep the event log in memory."""

from itertools import islice

import msgspec

from stem.backends.memory.state import MemoryState, StoreHandle
from stem.contracts.events import Events
from stem.core.event import Event
from stem.core.lifecycle import EventKind


class MemoryEvents(Events):
    def __init__(self, state: MemoryState, handle: StoreHandle) -> None:
        self._state = state
        self._handle = handle

    def read(self, after: str | None, *, limit: int) -> list[Event]:
        with self._state.changed:
            floor = int(after or 0)
            return list(islice((event for offset, event in self._state.log if offset > floor), limit))

    def head(self) -> str | None:
        with self._state.changed:
            return str(self._state.log[-1][0]) if self._state.log else None

    def wait(self, after: str | None, *, timeout_seconds: float) -> bool:
        with self._state.changed:
            log = self._state.log
            return self._state.sleep_until(
                lambda: bool(log) and log[-1][0] > int(after or 0), timeout_seconds, self._handle
            )

    def _note(self, kind: EventKind, worker: str, data: msgspec.Raw) -> None:
        with self._state.changed:
            self._state.tell_of_worker(kind, worker, self._state.clock(), msgspec.json.decode(data))
            self._state.changed.notify_all()
