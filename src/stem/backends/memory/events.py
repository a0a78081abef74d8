"""The event log in memory."""

from itertools import islice

import msgspec

from stem.backends.memory.space import Door, Space
from stem.contracts.events import Events
from stem.core.event import Event
from stem.core.lifecycle import EventKind


class MemoryEvents(Events):
    def __init__(self, space: Space, door: Door) -> None:
        self._space = space
        self._door = door

    def read(self, after: str | None, *, limit: int) -> list[Event]:
        with self._space.changed:
            floor = int(after or 0)
            return list(islice((event for offset, event in self._space.log if offset > floor), limit))

    def head(self) -> str | None:
        with self._space.changed:
            return str(self._space.log[-1][0]) if self._space.log else None

    def wait(self, after: str | None, *, timeout_seconds: float) -> bool:
        with self._space.changed:
            log = self._space.log
            return self._space.sleep_until(
                lambda: bool(log) and log[-1][0] > int(after or 0), timeout_seconds, self._door
            )

    def _note(self, kind: EventKind, worker: str, data: msgspec.Raw) -> None:
        with self._space.changed:
            self._space.tell_of_worker(kind, worker, self._space.clock(), msgspec.json.decode(data))
            self._space.changed.notify_all()
