"""Write endings to the store in batches: what arrives while one batch is being written forms the next."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Protocol

from stem.core.delivery import Ending, Lease
from stem.core.errors import StemError, StoreRefused
from stem.core.event import event_kinds
from stem.core.lifecycle import EventKind
from stem.core.outcome import Dead, Done
from stem.core.record import TaskError
from stem.runtime.backoff import Backoff
from stem.worker.pool.in_flight import InFlightTask
from stem.worker.services import task_log
from stem.worker.services.metrics import TaskMetrics
from stem.worker.services.task_log import SuccessLog

log = logging.getLogger("stem.worker")

MOST_AT_ONCE = 1000

Pair = tuple[InFlightTask, Ending]


class Writer(Protocol):
    """The broker, or a wrapper around it."""

    def settle(self, endings: Sequence[Ending], *, worker: str) -> list[Lease]: ...


class Settler:
    """Retries until the store has taken an ending or refused it; drops none."""

    def __init__(
        self,
        broker: Writer,
        worker: str,
        settled: Callable[[Sequence[InFlightTask]], None],
        successes: SuccessLog,
        task_metrics: TaskMetrics | None = None,
        count: Callable[[Sequence[Pair]], None] | None = None,
    ) -> None:
        """`count` gets the endings that the store has taken."""
        self._broker = broker
        self._successes = successes
        self._task_metrics = task_metrics
        self._worker = worker
        self._settled = settled
        self._count_settled = count
        self._waiting: list[Pair] = []
        self._changed = Condition()
        self._is_stopping = False
        self._is_abandoned = False
        self._backoff = Backoff("settling")
        self._thread = Thread(target=self._run, name="settler", daemon=True)
        self.counters: Counter[str] = Counter()

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, timeout_seconds: float = 10.0) -> None:
        """Write what is left, at most that long; what remains is repeated when its leases expire."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join(timeout_seconds)
        self._is_abandoned = True

    @property
    def is_failing(self) -> bool:
        """Whether the store did not take the last batch."""
        return self._backoff.is_failing

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def add(self, pairs: list[Pair]) -> None:
        with self._changed:
            self._waiting += pairs
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._is_stopping:
                        return
                    self._changed.wait()
                batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
            self._write(batch)

    def _write(self, batch: list[Pair]) -> None:
        while not self._is_abandoned:
            try:
                refused = self._broker.settle([ending for _, ending in batch], worker=self._worker)
            except StoreRefused as error:
                return self._write_one_by_one(batch, error)
            except StemError as error:
                # It may have been written and only the reply lost: then the second write is refused, which is harmless.
                self._pause(error)
                continue
            except Exception as error:  # one unforeseen ending must not end the worker
                log.exception("settlement.failed endings=%d", len(batch))
                return self._write_one_by_one(batch, error)
            self._backoff.succeeded()
            self._count(batch, {lease.id for lease in refused})
            return self._settled([task for task, _ in batch])
        return None

    def _write_one_by_one(self, batch: list[Pair], error: Exception) -> None:
        """Write the endings of a refused batch singly; the one that the store refuses becomes a dead letter."""
        if len(batch) > 1:
            for pair in batch:
                self._write([pair])
            return
        task, ending = batch[0]
        if isinstance(ending.settlement, Dead):
            log.error("task.settlement_refused id=%s: %s", task.lease.id, error)
            self._settled([task])
            return
        refusal = TaskError(type(error).__name__, str(error)[:1000])
        self._write([(task, Ending(task.lease, Dead("not-storable", refusal), ending.run_seconds))])

    def _count(self, batch: list[Pair], refused: set[str]) -> None:
        if self._task_metrics is not None:
            self._task_metrics.ended(batch, refused)
        done: list[Pair] = []
        for task, ending in batch:
            if refused and ending.lease.id in refused:
                self.counters["refused"] += 1
                log.warning("lease.lost id=%s: its ending was refused; another worker has it", task.lease.id)
            elif type(ending.settlement) is Done:
                done.append((task, ending))
            else:
                self.counters[event_kinds(ending.settlement)[0]] += 1
                task_log.log_ending(task, ending)
        if done:
            self.counters[EventKind.SUCCEEDED] += len(done)
            self._successes.add(done)
        if self._count_settled is not None:
            self._count_settled([pair for pair in batch if pair[1].lease.id not in refused] if refused else batch)

    def _pause(self, error: StemError) -> None:
        if not self._backoff.is_failing:
            log.warning("store.disconnected while settling: %s", error)
        with self._changed:
            self._changed.wait(self._backoff.failed())
