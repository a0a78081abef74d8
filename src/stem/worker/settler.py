"""Writes endings: those that gather while one batch is being written are the next. Nothing is dropped but by the store."""

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
from stem.worker import task_log
from stem.worker.backoff import Backoff
from stem.worker.held import Held
from stem.worker.task_log import SuccessLog

log = logging.getLogger("stem.worker")

MOST_AT_ONCE = 1000

Pair = tuple[Held, Ending]


class Writer(Protocol):
    """The broker, or who stands in for it."""

    def settle(self, endings: Sequence[Ending], *, worker: str) -> list[Lease]: ...


class Settler:
    def __init__(
        self, broker: Writer, worker: str, settled: Callable[[Sequence[Held]], None], successes: SuccessLog
    ) -> None:
        self._broker = broker
        self._successes = successes
        self._worker = worker
        self._settled = settled
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
        """Writes what is left first; gives up after the time, and leaves it to the leases."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join(timeout_seconds)
        self._is_abandoned = True

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
                # It may have been written and only the answer lost: then the second time is refused, and all is well.
                self._pause(error)
                continue
            except Exception as error:  # one ending that nobody foresaw must not end the worker
                log.exception("settle.failed endings=%d", len(batch))
                return self._write_one_by_one(batch, error)
            self._backoff.succeeded()
            self._count(batch, {lease.id for lease in refused})
            return self._settled([held for held, _ in batch])
        return None

    def _write_one_by_one(self, batch: list[Pair], error: Exception) -> None:
        """One ending that the store will not have must not keep back the others: it becomes a dead letter that says so."""
        if len(batch) > 1:
            for pair in batch:
                self._write([pair])
            return
        held, ending = batch[0]
        if isinstance(ending.settlement, Dead):
            log.error("task.unsettled id=%s: %s", held.lease.id, error)
            self._settled([held])
            return
        refusal = TaskError(type(error).__name__, str(error)[:1000])
        self._write([(held, Ending(held.lease, Dead("not-storable", refusal), ending.run_seconds))])

    def _count(self, batch: list[Pair], refused: set[str]) -> None:
        done: list[Pair] = []
        for held, ending in batch:
            if refused and ending.lease.id in refused:
                self.counters["refused"] += 1
                log.warning("task.lease-lost id=%s: its ending was refused; another worker has it", held.lease.id)
            elif type(ending.settlement) is Done:
                done.append((held, ending))
            else:
                self.counters[event_kinds(ending.settlement)[0]] += 1
                task_log.tell(held, ending)
        if done:
            self.counters[EventKind.SUCCEEDED] += len(done)
            self._successes.tell(done)

    def _pause(self, error: StemError) -> None:
        if not self._backoff.is_failing:
            log.warning("store.lost while settling: %s", error)
        with self._changed:
            self._changed.wait(self._backoff.failed())
