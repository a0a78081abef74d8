"""The pool's view of one isolate: the tasks assigned to it, which of them run, and whether it may take another."""

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from stem.worker.fork.client import IsolateHandle
from stem.worker.pool.in_flight import InFlightTask

# Enough to hide the round trip to the isolate; a run that turns out long gives the others back.
AHEAD_SECONDS = 0.01
AHEAD_MOST = 100
OVERHEAD_SECONDS = 0.00005
WEIGHT = 0.1  # of the latest run in the moving average
# Consecutive looks, about a second, at which a task neither runs nor has ended. Counted in looks and not in time, so that an
# isolate gets its second after the machine was suspended.
UNRESPONSIVE_LOOKS = 20


class IsolateState:
    """`slots` is how many coroutines, or inline threads, may run in it at once."""

    __slots__ = (
        "_unresponsive",
        "assigned",
        "finished",
        "handle",
        "holds_suspect",
        "is_corrupt",
        "is_killed",
        "is_ready",
        "is_retiring",
        "is_shared",
        "max_tasks",
        "slots",
    )

    def __init__(self, handle: IsolateHandle, slots: int, max_tasks: int | None = None) -> None:
        self.handle = handle
        self.slots = slots
        self.assigned: dict[int, InFlightTask] = {}  # by number, in the order in which it runs them
        self.is_ready = False
        self.is_retiring = False  # gets no more tasks and exits when it is done
        self.is_killed = False  # by the supervisor
        self.finished = 0  # tasks
        self.max_tasks = max_tasks  # before it is recycled
        self.is_shared = False  # it runs coroutines or inline threads
        self.holds_suspect = False  # its task was in an isolate that crashed, and runs alone
        self.is_corrupt = False  # its status block cannot be trusted
        self._unresponsive = (0, 0)  # the number of an unresponsive run, and for how many looks

    @property
    def accepts_tasks(self) -> bool:
        return not self.is_retiring and not self.is_killed

    def state(self, *, is_busy: bool) -> str:
        """For people: what it is doing."""
        if self.is_killed:
            return "killed"
        if not self.is_ready:
            return "starting"
        return "retiring" if self.is_retiring else "busy" if is_busy else "idle"

    def running(self) -> Iterator[tuple[int, InFlightTask]]:
        """Yield each slot in use and the task that runs in it."""
        status = self.handle.status
        for slot in range(status.slots if self.is_shared else 1):
            task = self.assigned.get(status.running(slot))
            if task is not None:
                yield slot, task

    @property
    def sharing(self) -> int:
        """How many of its tasks occupy no isolate: all inline ones, and coroutines in an isolate that takes more."""
        count = len(self.assigned) if self.is_shared else 0
        return count - 1 if count >= self.slots and not self.handle.is_inline else count

    def slot_of(self, task: InFlightTask) -> int | None:
        return next((slot for slot, running in self.running() if running is task), None)

    def is_unresponsive(self) -> bool:
        """Whether it has held a run for a second that, by its status block, neither runs nor has ended. Called at every look."""
        if self.is_shared:
            status = self.handle.status
            over = [status.over(slot) for slot in range(status.slots)]
            number = next((number for number in over if number in self.assigned), 0)
        else:
            number = 0 if any(self.running()) else next(iter(self.assigned), 0)
        self._unresponsive = (number, self._unresponsive[1] + 1 if number == self._unresponsive[0] else 0)
        return number != 0 and self._unresponsive[1] >= UNRESPONSIVE_LOOKS

    def take_back(self) -> list[InFlightTask]:
        """Remove and return the tasks that it has not started, and now never will."""
        return [self.assigned.pop(number) for number in self.handle.take_back() if number in self.assigned]

    def progress(self, slot: int, task: InFlightTask) -> dict[str, object] | None:
        """The latest progress of a run; {} for a heartbeat without progress, None if it cannot be read now."""
        status = self.handle.status
        found = status.progress(slot)
        if found is None or status.running(slot) != task.number:
            return None
        task.beats, progress = found
        with suppress(
            msgspec.DecodeError, RecursionError
        ):  # a task that writes into the status block harms only itself
            return msgspec.json.decode(progress, type=dict[str, object]) if progress else {}
        return None


class RunTimes:
    """A moving average of the run time per task name."""

    def __init__(self) -> None:
        self._means: dict[str, float] = {}

    def add(self, name: str, seconds: float) -> None:
        mean = self._means.get(name)
        self._means[name] = seconds if mean is None else mean + WEIGHT * (seconds - mean)

    def prefetch(self, name: str) -> int:
        mean = self._means.get(name)
        return 0 if mean is None else min(AHEAD_MOST, int(AHEAD_SECONDS / (mean + OVERHEAD_SECONDS)))


def running_tasks(isolates: Iterable[IsolateState]) -> list[tuple[IsolateState, list[tuple[InFlightTask, float]]]]:
    """Return the tasks that run at this moment by isolate, each with its run time so far. Any thread may ask: the pool may
    remove an isolate meanwhile and close its status block."""
    now, found = time.monotonic(), list[tuple[IsolateState, list[tuple[InFlightTask, float]]]]()
    for isolate in isolates:
        with suppress(ValueError):
            times = isolate.handle.status.times
            found.append((isolate, [(task, now - times(slot)[0]) for slot, task in list(isolate.running())]))
    return found
