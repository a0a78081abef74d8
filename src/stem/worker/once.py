"""Tasks that run at most once: a lock in the store says that one was begun, before its handler can be called."""

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
from stem.worker.held import Held

log = logging.getLogger("stem.worker")

LEAST_KEPT_SECONDS, MOST_KEPT_SECONDS = 86400.0, 365 * 86400.0

_BEGUN = Dead(
    "at-most-once",
    TaskError("WorkerLost", "A run of the task was cut off, and it is to run at most once; replay it if it may."),
)
_AWAY = Requeue(1.0, "the store could not be told of the start")
NO_ROOM = Requeue(0.25, "it runs at most once, and no isolate is free for it")


class Once:
    """The lock is released when the task has ended, or goes back without having begun. A lock whose worker died stays for
    `kept_seconds`, or until the task is claimed again, and ended for that.

    The store learns of a start a little later than it happens, so every lock counts as a start. What is claimed ahead gets
    none: no more have one than `room` says can run here at the same moment.
    """

    def __init__(self, store: Store, worker: str, *, kept_seconds: float, room: Callable[[Held], int]) -> None:
        self._store = store
        self._worker = worker
        self._kept_seconds = min(max(kept_seconds, LEAST_KEPT_SECONDS), MOST_KEPT_SECONDS)
        self._room = room
        self._owners: dict[Lease, str] = {}  # of the locks of tasks that this worker holds
        self._unreleased: dict[Lease, str] = {}  # the same of tasks that have ended: to be tried again
        self._passed: list[Held] = []  # what was let through and has not ended

    def sort(self, helds: list[Held]) -> tuple[list[Held], list[tuple[Held, Ending]]]:
        """What may run, and the endings of what may not."""
        chosen = [held for held in helds if held.facts is not None and held.facts.at_most_once]
        if not chosen:
            return helds, []
        self._release_the_rest()
        denied = self._denied(chosen)
        endings = [(held, Ending(held.lease, denied[held.number])) for held in chosen if held.number in denied]
        return [held for held in helds if held.number not in denied], endings

    def settle(self, endings: Sequence[Ending], *, worker: str) -> list[Lease]:
        """As the broker does, for whom it stands in."""
        if not self._owners and not self._unreleased:
            return self._store.broker.settle(endings, worker=worker)
        endings = [self._last(ending) for ending in endings]
        for ending in endings:
            if isinstance(ending.settlement, Requeue) and ending.run_seconds is None:
                self._release(ending.lease)  # before anybody else can claim it
        refused = self._store.broker.settle(endings, worker=worker)
        kept = self._not_ended([lease.id for lease in refused if lease in self._owners])
        for ending in endings:
            owner = self._owners.pop(ending.lease, None)
            is_kept = ending.lease.id in kept if ending.lease in refused else isinstance(ending.settlement, Requeue)
            if owner is not None and not is_kept:
                self._unreleased[ending.lease] = owner
        self._release_the_rest()
        return refused

    def _last(self, ending: Ending) -> Ending:
        """Whoever sent it may have asked for retries."""
        match ending.settlement:
            case Retry(error=error) if ending.lease in self._owners:
                return msgspec.structs.replace(ending, settlement=Dead("retries-exhausted", error))
            case _:
                return ending

    def _denied(self, chosen: list[Held]) -> dict[int, Settlement]:
        """By number; who is not in it may run."""
        self._passed = [held for held in self._passed if not (held.is_ended or held.is_lost)]
        like_it = Counter(map(_kind, self._passed))
        denied: dict[int, Settlement] = {}
        is_away = False
        for held in chosen:
            if like_it[_kind(held)] >= self._room(held):
                denied[held.number] = NO_ROOM
                continue
            verdict = _AWAY if is_away else self._verdict(held.lease)
            if verdict is None:
                self._passed.append(held)
                like_it[_kind(held)] += 1
            else:
                denied[held.number] = verdict
                is_away = verdict is _AWAY
        return denied

    def _verdict(self, lease: Lease) -> Settlement | None:
        """None: it may run."""
        name, owner = _lock(lease.id), f"{self._worker}:{lease.fence}"
        self._owners[lease] = owner  # first: if only the answer is lost, the lock is ours
        try:
            is_first = self._store.locks.acquire(name, owner=owner, ttl_seconds=self._kept_seconds) is not None
            self._owners[lease] = owner if is_first else self._store.locks.owner(name) or owner
        except StemError as error:
            log.warning("task.not-begun id=%s: %s", lease.id, error)
            return _AWAY
        return None if is_first else _BEGUN

    def _not_ended(self, refused: list[str]) -> set[str]:
        """An ending may be refused because it was written before and only the answer was lost."""
        if not refused:
            return set()
        with suppress(StemError):
            records = self._store.results.get(refused)
            return {id for id in refused if id not in records or not records[id].is_terminal}
        return set(refused)

    def _release_the_rest(self) -> None:
        """What is written is written: a lock that cannot be released now is released with the next batch."""
        with suppress(StemError):
            for lease, owner in list(self._unreleased.items()):
                self._store.locks.release(_lock(lease.id), owner=owner)
                self._unreleased.pop(lease, None)

    def _release(self, lease: Lease) -> None:
        owner = self._owners.get(lease)
        if owner is not None:
            self._store.locks.release(_lock(lease.id), owner=owner)
            self._owners.pop(lease, None)


def _kind(held: Held) -> tuple[bool, bool]:
    return held.is_async, held.is_inline


def _lock(task_id: str) -> str:
    return f"once:{task_id}"
