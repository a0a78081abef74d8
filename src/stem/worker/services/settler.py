"""Write endings to the store in batches: what arrives while one batch is being written forms the next."""

import logging
from collections.abc import Callable, Sequence, Set
from threading import Condition, Thread
from typing import Protocol

from stem.core.delivery import Ending, Lease
from stem.core.errors import StemError, StoreRefused
from stem.core.outcome import Dead
from stem.core.record import TaskError
from stem.runtime.backoff import Backoff
from stem.worker.pool.in_flight import InFlightTask

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
        account: Callable[[Sequence[Pair], Set[str]], None],
    ) -> None:
        """`account` gets each batch that was written, and the ids of those in it that the store has refused."""
        self._broker = broker
        self._worker = worker
        self._settled = settled
        self._account = account
        self._waiting: list[Pair] = []
        self._changed = Condition()
        self._is_stopping = False
        self._is_abandoned = False
        self._backoff = Backoff("settling")
        self._thread = Thread(target=self._run, name="settler", daemon=True)

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
            self._settled([task for task, _ in batch])
            return self._account(batch, {lease.id for lease in refused})
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

    def _pause(self, error: StemError) -> None:
        if not self._backoff.is_failing:
            log.warning("store.disconnected while settling: %s", error)
        with self._changed:
            self._changed.wait(self._backoff.failed())
