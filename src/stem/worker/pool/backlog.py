"""Tasks that wait for an isolate; each goes to the isolate that holds the fewest. Used by the pool's thread only."""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from heapq import heapify, heappop, heapreplace

from stem.worker.isolate import wire
from stem.worker.pool.in_flight import InFlightTask
from stem.worker.pool.isolate_state import IsolateState, RunTimes
from stem.worker.pool.isolates import Isolates


class Backlog:
    """Two queues: for isolates and for inline threads."""

    def __init__(self, isolates: Isolates, run_times: RunTimes) -> None:
        self._isolates = isolates
        self._run_times = run_times
        self._isolated: deque[InFlightTask] = deque()
        self._inline: deque[InFlightTask] = deque()  # tasks with isolate=False

    @property
    def first(self) -> InFlightTask | None:
        """The next task for an isolate."""
        return self._isolated[0] if self._isolated else None

    def put(self, tasks: Iterable[InFlightTask]) -> None:
        for task in tasks:
            self._queue_of(task).append(task)

    def put_back(self, tasks: list[InFlightTask]) -> None:
        """Queue tasks again, ahead of those claimed later."""
        for task in reversed(tasks):
            self._queue_of(task).appendleft(task)

    def remove(self, task: InFlightTask) -> None:
        with suppress(ValueError):
            self._queue_of(task).remove(task)

    def take_out(self, matches: Callable[[InFlightTask], bool]) -> list[InFlightTask]:
        """Remove and return the tasks for which this is true."""
        found: list[InFlightTask] = []
        for queue in (self._isolated, self._inline):
            matching = [task for task in queue if matches(task)]
            if matching:
                left = [task for task in queue if not matches(task)]
                queue.clear()
                queue.extend(left)
            found += matching
        return found

    def take_isolated(self) -> list[InFlightTask]:
        """Remove and return all tasks that wait for an isolate."""
        tasks = list(self._isolated)
        self._isolated.clear()
        return tasks

    def hand_out(self) -> bool:
        """Send tasks to isolates with capacity. True if any was sent."""
        waiting = len(self._isolated) + len(self._inline)
        if not waiting:
            return False
        if self._inline:
            inline = self._isolates.inline()
            while self._inline and self._send_first(self._inline, choose([inline], self._inline[0], self._run_times)):
                pass
        if self._isolated:
            isolates = self._isolates.active()
            while self._isolated and self._hand_out_next(isolates):
                pass
        return len(self._isolated) + len(self._inline) < waiting

    def _hand_out_next(self, isolates: list[IsolateState]) -> bool:
        """Send the next task, and those of the same name behind it. False once no isolate may take more."""
        first = self._isolated[0]
        if first.is_async or len(self._isolated) == 1:
            return self._send_first(self._isolated, choose(isolates, first, self._run_times))
        return self._hand_out_alike(isolates, first)

    def _hand_out_alike(self, isolates: list[IsolateState], first: InFlightTask) -> bool:
        """Compute each isolate's capacity once for all tasks of a name, because this is done for every task."""
        queue, name = self._isolated, first.delivery.name
        # With the position, so that isolates are never compared.
        loads = [
            (len(isolate.assigned), place, max_tasks, isolate)
            for place, isolate in enumerate(isolates)
            if (max_tasks := _capacity(isolate, first, self._run_times)) > len(isolate.assigned)
        ]
        heapify(loads)
        while loads:
            count, place, max_tasks, isolate = loads[0]
            if not self._send_first(queue, isolate):
                return False
            if not queue or queue[0].delivery.name != name:
                return True
            if count + 1 < max_tasks:
                heapreplace(loads, (count + 1, place, max_tasks, isolate))
            else:
                heappop(loads)
        return False

    def _send_first(self, queue: deque[InFlightTask], isolate: IsolateState | None) -> bool:
        """Send the first of the queue. False if there is no isolate or its inbox is full."""
        if isolate is None:
            return False
        task = queue[0]
        packet = wire.encode_run if task.cleanup_outcome is None else wire.encode_cleanup
        if not isolate.handle.send(packet(task.number, task.delivery)):
            return False
        if not isolate.assigned:
            isolate.is_shared = task.is_async or isolate.handle.is_inline
            isolate.holds_suspect = task.delivery.deaths > 0
        isolate.assigned[task.number] = task
        queue.popleft()
        return True

    def _queue_of(self, task: InFlightTask) -> deque[InFlightTask]:
        return self._inline if task.is_inline or self._isolates.runs_in_process else self._isolated


def choose(isolates: Iterable[IsolateState], task: InFlightTask, run_times: RunTimes) -> IsolateState | None:
    """Return the isolate with the fewest tasks that may take this one; None if none may."""
    best, fewest = None, 1 << 30
    for isolate in isolates:
        count = len(isolate.assigned)
        if count < fewest and count < _capacity(isolate, task, run_times):
            best, fewest = isolate, count
            if count == 0:
                break
    return best


def _capacity(isolate: IsolateState, task: InFlightTask, run_times: RunTimes) -> int:
    """How many tasks the isolate may hold, including this one."""
    if not isolate.is_ready or not isolate.accepts_tasks:
        return 0
    if isolate.handle.is_inline:
        return _shared_capacity(isolate, task)
    max_tasks = _shared_capacity(isolate, task) if task.is_async else _prefetch(isolate, task, run_times)
    return max_tasks if isolate.max_tasks is None else min(max_tasks, isolate.max_tasks - isolate.finished)


# A task that was in an isolate that crashed runs alone, so that the culprit is known.


def _shared_capacity(isolate: IsolateState, task: InFlightTask) -> int:
    if not isolate.assigned:
        return 1
    return isolate.slots if isolate.is_shared and not task.delivery.deaths and not isolate.holds_suspect else 0


def _prefetch(isolate: IsolateState, task: InFlightTask, run_times: RunTimes) -> int:
    if isolate.assigned and (isolate.is_shared or isolate.holds_suspect or task.delivery.deaths):
        return 0
    return 1 if task.delivery.deaths else 1 + run_times.prefetch(task.delivery.name)
