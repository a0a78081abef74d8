"""Account for endings that the store has taken: counters, metrics, minute counts and log lines."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence, Set
from queue import Queue
from threading import Thread

from stem.core.delivery import Ending
from stem.core.event import event_kinds
from stem.core.lifecycle import EventKind
from stem.core.outcome import Done
from stem.worker.pool.in_flight import InFlightTask
from stem.worker.services import task_log

log = logging.getLogger("stem.worker")

MOST_WAITING = 16  # batches; then the settler waits

Batch = Sequence[tuple[InFlightTask, Ending]]


class Accounting:
    """Works in a thread of its own, while the settler waits for the store to take the next batch.

    `count` are called with the endings of a batch that were not refused; `successes` with the successes among them.
    """

    def __init__(self, successes: Callable[[Batch], None], count: Sequence[Callable[[Batch], None]] = ()) -> None:
        self._successes = successes
        self._count = count
        self._waiting: Queue[tuple[Batch, Set[str]] | None] = Queue(MOST_WAITING)
        self._thread = Thread(target=self._run, name="accounting", daemon=True)
        self.counters: Counter[str] = Counter()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish what waits."""
        self._waiting.put(None)
        self._thread.join(timeout=10)

    def add(self, batch: Batch, refused: Set[str]) -> None:
        """`refused` are the ids of tasks whose endings the store has not taken."""
        self._waiting.put((batch, refused))

    def _run(self) -> None:
        while (found := self._waiting.get()) is not None:
            try:
                self._account(*found)
            except Exception:  # the tasks are settled; figures are not worth a worker
                log.exception("accounting.failed endings=%d", len(found[0]))

    def _account(self, batch: Batch, refused: Set[str]) -> None:
        taken = [pair for pair in batch if pair[1].lease.id not in refused] if refused else batch
        for count in self._count:
            count(taken)
        done = [pair for pair in taken if type(pair[1].settlement) is Done]
        if done:
            self.counters[EventKind.SUCCEEDED] += len(done)
            self._successes(done)
        if len(done) < len(batch):
            self._account_for_others(batch, refused)

    def _account_for_others(self, batch: Batch, refused: Set[str]) -> None:
        for task, ending in batch:
            if ending.lease.id in refused:
                self.counters["refused"] += 1
                log.warning("lease.lost id=%s: its ending was refused; another worker has it", task.lease.id)
            elif type(ending.settlement) is not Done:
                self.counters[event_kinds(ending.settlement)[0]] += 1
                task_log.log_ending(task, ending)
