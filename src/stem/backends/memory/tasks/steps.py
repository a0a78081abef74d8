"""Keep durable steps in memory."""

import msgspec

from stem.backends.memory.state import MemoryState
from stem.contracts.steps import EVENT, Step, Steps
from stem.core.delivery import Lease
from stem.core.lifecycle import TERMINAL, EventKind
from stem.core.record import moment


class MemorySteps(Steps):
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def record(self, lease: Lease, name: str, payload: msgspec.Raw) -> bool:
        state = self._state
        with state.changed:
            task = state.leased.get(lease.id)
            if task is None or task.fence != lease.fence:
                return False
            if self._put(lease.id, name, payload):
                state.tell(EventKind.STEP, task, state.clock(), {"step": name})
                state.changed.notify_all()
            return True

    def all(self, task_id: str) -> list[Step]:
        with self._state.changed:
            return list(self._state.steps.get(task_id, {}).values())

    def send(self, task_id: str, event: str, data: msgspec.Raw) -> bool:
        state = self._state
        with state.changed:
            task = state.tasks.get(task_id)
            if task is None or task.state in TERMINAL:
                return False
            self._put(task_id, EVENT + event, data)
            if task.awaited_event == event and task.place:
                task.awaited_event = None
                state.enter(task, state.clock(), state.clock())
                state.changed.notify_all()
            return True

    def _put(self, task_id: str, name: str, payload: msgspec.Raw) -> bool:
        steps = self._state.steps.setdefault(task_id, {})
        if name in steps:
            return False
        steps[name] = Step(name, payload, moment(self._state.clock()))
        return True
