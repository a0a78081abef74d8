"""Tasks that run at most once: a lock in the store says that one was begun, before its handler can be called."""

import logging
from collections.abc import Sequence

import msgspec

from stem.contracts.store import Store
from stem.core.delivery import Ending, Lease
from stem.core.errors import StemError
from stem.core.outcome import Dead, Requeue, Retry, Settlement
from stem.core.record import TaskError
from stem.worker.held import Held

log = logging.getLogger("stem.worker")

KEPT_SECONDS = 365 * 86400.0  # a lock whose worker died: until the task is claimed again, and ended for that

_BEGUN = Dead(
    "at-most-once",
    TaskError("WorkerLost", "A run of the task was cut off, and it is to run at most once; replay it if it may."),
)
_AWAY = Requeue(1.0, "the store could not be told of the start")


class Once:
    """The lock is released when the task has ended, or goes back without having begun."""

    def __init__(self, store: Store, worker: str) -> None:
        self._store = store
        self._worker = worker
        self._owners: dict[str, str] = {}  # of the locks of tasks that this worker holds, by task id

    def sort(self, helds: list[Held]) -> tuple[list[Held], list[tuple[Held, Ending]]]:
        """What may run, and the endings of what may not."""
        chosen = [held for held in helds if held.facts is not None and held.facts.at_most_once]
        if not chosen:
            return helds, []
        denied = {held.number: verdict for held in chosen if (verdict := self._verdict(held.lease)) is not None}
        endings = [(held, Ending(held.lease, denied[held.number])) for held in chosen if held.number in denied]
        return [held for held in helds if held.number not in denied], endings

    def settle(self, endings: Sequence[Ending], *, worker: str) -> list[Lease]:
        """As the broker does, for whom it stands in."""
        if not self._owners:
            return self._store.broker.settle(endings, worker=worker)
        endings = [self._last(ending) for ending in endings]
        for ending in endings:
            if isinstance(ending.settlement, Requeue) and ending.run_seconds is None:
                self._release(ending.lease.id)  # before anybody else can claim it
        refused = self._store.broker.settle(endings, worker=worker)
        for ending in endings:
            if ending.lease in refused or isinstance(ending.settlement, Requeue):
                self._owners.pop(ending.lease.id, None)
            else:
                self._release(ending.lease.id)
        return refused

    def _last(self, ending: Ending) -> Ending:
        """Whoever sent it may have asked for retries."""
        match ending.settlement:
            case Retry(error=error) if ending.lease.id in self._owners:
                return msgspec.structs.replace(ending, settlement=Dead("retries-exhausted", error))
            case _:
                return ending

    def _verdict(self, lease: Lease) -> Settlement | None:
        """None: it may run."""
        name, owner = _lock(lease.id), f"{self._worker}:{lease.fence}"
        try:
            is_first = self._store.locks.acquire(name, owner=owner, ttl_seconds=KEPT_SECONDS) is not None
            self._owners[lease.id] = owner if is_first else self._store.locks.owner(name) or owner
        except StemError as error:
            log.warning("task.not-begun id=%s: %s", lease.id, error)
            return _AWAY
        return None if is_first else _BEGUN

    def _release(self, task_id: str) -> None:
        owner = self._owners.get(task_id)
        if owner is not None:
            self._store.locks.release(_lock(task_id), owner=owner)
            self._owners.pop(task_id, None)


def _lock(task_id: str) -> str:
    return f"once:{task_id}"
