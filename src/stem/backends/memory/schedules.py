"""Keep schedules in memory."""

from collections.abc import Sequence
from datetime import datetime

from stem.backends.memory.state import MemoryState, StoreHandle
from stem.backends.memory.tasks.broker import MemoryBroker
from stem.contracts.schedules import Scheduled, ScheduleEntry, Schedules, ScheduleState, event_of, versioned
from stem.core.envelope import Push
from stem.core.lifecycle import EventKind
from stem.core.record import moment


class MemorySchedules(Schedules):
    def __init__(self, state: MemoryState, handle: StoreHandle, broker: MemoryBroker) -> None:
        self._state = state
        self._handle = handle
        self._broker = broker

    def get(self, entry_id: str) -> Scheduled | None:
        with self._state.changed:
            return self._state.schedules.get(entry_id)

    def all(self) -> list[Scheduled]:
        with self._state.changed:
            return [self._state.schedules[entry_id] for entry_id in sorted(self._state.schedules)]

    def broken(self) -> list[str]:
        return []

    def write(
        self, entry: ScheduleEntry, state: ScheduleState, *, revision: int | None, pushes: Sequence[Push] = ()
    ) -> Scheduled | None:
        with self._state.changed:  # it can be taken again by the push
            stored = self._state.schedules.get(entry.id)
            if (0 if stored is None else stored.revision) != revision:
                return None
            for receipt, push in zip(self._broker.push(pushes), pushes, strict=True):
                if receipt.created:
                    task = self._state.tasks[receipt.id]
                    self._state.tell(EventKind.SCHEDULED, task, task.enqueued_at, event_of(entry, push.envelope))
            written = Scheduled(
                versioned(entry, None if stored is None else stored.entry), state, self._state.number("schedule")
            )
            self._state.schedules[entry.id] = written
            self._state.changed.notify_all()
            return written

    def delete(self, entry_id: str) -> bool:
        with self._state.changed:
            self._state.number("schedule")
            self._state.changed.notify_all()
            return self._state.schedules.pop(entry_id, None) is not None

    def due(self, *, limit: int) -> list[Scheduled]:
        with self._state.changed:
            return self._due()[: max(0, limit)]

    def next_due_at(self) -> datetime | None:
        with self._state.changed:
            return min(
                (each.state.due_at for each in self._state.schedules.values() if each.state.due_at), default=None
            )

    def wait(self, *, timeout_seconds: float) -> bool:
        state = self._state
        with state.changed:
            seen = state.last_number("schedule")

            def is_true() -> bool:
                return state.last_number("schedule") != seen or bool(self._due())

            upcoming = self.next_due_at()
            left = timeout_seconds if upcoming is None else upcoming.timestamp() - state.clock()
            # One that falls due is no change of the state, so look again when it does.
            return state.sleep_until(is_true, max(0.0, min(timeout_seconds, left)), self._handle) or is_true()

    def _due(self) -> list[Scheduled]:
        now = moment(self._state.clock())
        found = [(each.state.due_at, each) for each in self._state.schedules.values()]
        return [each for at, each in sorted(((a, e) for a, e in found if a and a <= now), key=lambda pair: pair[0])]
