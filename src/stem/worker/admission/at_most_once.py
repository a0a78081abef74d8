"""Tasks that run at most once: a lock in the store records the start before the handler can be called."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from stem.contracts.store import Store
from stem.core.delivery import Ending, Lease
from stem.core.errors import StemError
from stem.core.outcome import Dead, Requeue, Retry, Settlement
from stem.core.record import TaskError
from stem.worker.pool.in_flight import InFlightTask

log = logging.getLogger("stem.worker")

LEAST_KEPT_SECONDS, MOST_KEPT_SECONDS = 86400.0, 365 * 86400.0

_BEGUN = Dead(
    "at-most-once",
    TaskError("WorkerLost", "A run of the task was cut off, and it is to run at most once; replay it if it may."),
)
_AWAY = Requeue(1.0, "the store could not record the start")
NO_FREE_ISOLATE = Requeue(0.25, "it runs at most once, and no isolate is free")


class AtMostOnce:
    """A lock is released when the task has ended, or goes back without having started. The lock of a worker that died stays
    for `kept_seconds`, or until the task is claimed again and ended because of it.

    The store learns of a start slightly after it happens, so every lock counts as a start. Tasks claimed ahead get none: at
    most `capacity` tasks of a kind, as many as can run here at once, have a lock.
    """

    def __init__(
        self, store: Store, worker: str, *, kept_seconds: float, capacity: Callable[[InFlightTask], int]
    ) -> None:
        self._store = store
        self._worker = worker
        self._kept_seconds = min(max(kept_seconds, LEAST_KEPT_SECONDS), MOST_KEPT_SECONDS)
        self._capacity = capacity
        self._owners: dict[Lease, str] = {}  # of the locks of tasks in flight
        self._unreleased: dict[Lease, str] = {}  # of the locks of ended tasks: their release is tried again
        self._admitted: list[InFlightTask] = []  # tasks that were admitted and have not ended

    def admit(self, tasks: list[InFlightTask]) -> tuple[list[InFlightTask], list[tuple[InFlightTask, Ending]]]:
        """Split into tasks that may run and the endings of the others."""
        chosen = [task for task in tasks if task.facts is not None and task.facts.at_most_once]
        if not chosen:
            return tasks, []
        self._release_ended()
        denied = self._denied(chosen)
        endings = [(task, Ending(task.lease, denied[task.number])) for task in chosen if task.number in denied]
        return [task for task in tasks if task.number not in denied], endings

    def settle(self, endings: Sequence[Ending], *, worker: str) -> list[Lease]:
        """Settle as the broker does, and release the locks of what has ended."""
        if not self._owners and not self._unreleased:
            return self._store.broker.settle(endings, worker=worker)
        endings = [self._without_retry(ending) for ending in endings]
        for ending in endings:
            if isinstance(ending.settlement, Requeue) and ending.run_seconds is None:
                self._release(ending.lease)  # before another worker can claim it
        refused = self._store.broker.settle(endings, worker=worker)
        kept = self._not_ended([lease.id for lease in refused if lease in self._owners])
        for ending in endings:
            owner = self._owners.pop(ending.lease, None)
            is_kept = ending.lease.id in kept if ending.lease in refused else isinstance(ending.settlement, Requeue)
            if owner is not None and not is_kept:
                self._unreleased[ending.lease] = owner
        self._release_ended()
        return refused

    def _without_retry(self, ending: Ending) -> Ending:
        """Turn a retry into a dead letter: the sender may have asked for retries."""
        match ending.settlement:
            case Retry(error=error) if ending.lease in self._owners:
                return msgspec.structs.replace(ending, settlement=Dead("retries-exhausted", error))
            case _:
                return ending

    def _denied(self, chosen: list[InFlightTask]) -> dict[int, Settlement]:
        """The settlements of the tasks that may not run, by number."""
        self._admitted = [task for task in self._admitted if not (task.is_ended or task.lease_lost)]
        running = Counter(map(_kind, self._admitted))
        denied: dict[int, Settlement] = {}
        is_away = False
        for task in chosen:
            if running[_kind(task)] >= self._capacity(task):
                denied[task.number] = NO_FREE_ISOLATE
                continue
            refusal = _AWAY if is_away else self._refusal(task.lease)
            if refusal is None:
                self._admitted.append(task)
                running[_kind(task)] += 1
            else:
                denied[task.number] = refusal
                is_away = refusal is _AWAY
        return denied

    def _refusal(self, lease: Lease) -> Settlement | None:
        """Take the lock. None: the task may run."""
        name, owner = _lock(lease.id), f"{self._worker}:{lease.fence}"
        self._owners[lease] = owner  # first: if only the reply is lost, the lock is ours
        try:
            is_first = self._store.locks.acquire(name, owner=owner, ttl_seconds=self._kept_seconds) is not None
            self._owners[lease] = owner if is_first else self._store.locks.owner(name) or owner
        except StemError as error:
            log.warning("task.start_refused id=%s: %s", lease.id, error)
            return _AWAY
        return None if is_first else _BEGUN

    def _not_ended(self, refused: list[str]) -> set[str]:
        """Which of the refused have not ended: an ending may be refused because it was written and only the reply was lost."""
        if not refused:
            return set()
        with suppress(StemError):
            records = self._store.results.get(refused)
            return {id for id in refused if id not in records or not records[id].is_terminal}
        return set(refused)

    def _release_ended(self) -> None:
        """Release the locks of ended tasks; a failed release is repeated with the next batch."""
        with suppress(StemError):
            for lease, owner in list(self._unreleased.items()):
                self._store.locks.release(_lock(lease.id), owner=owner)
                self._unreleased.pop(lease, None)

    def _release(self, lease: Lease) -> None:
        owner = self._owners.get(lease)
        if owner is not None:
            self._store.locks.release(_lock(lease.id), owner=owner)
            self._owners.pop(lease, None)


def _kind(task: InFlightTask) -> tuple[bool, bool]:
    return task.is_async, task.is_inline


def _lock(task_id: str) -> str:
    return f"once:{task_id}"
