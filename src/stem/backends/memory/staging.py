"""Staged pushes in memory."""

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from stem.backends.memory.broker import MemoryBroker
from stem.backends.memory.space import Space
from stem.contracts.staging import LEFTOVER_SECONDS, Calls, Part, Promotion, Staging, incomplete
from stem.core.envelope import Push, decode
from stem.core.errors import StoreRefused


class MemoryStaging(Staging):
    def __init__(self, space: Space, broker: MemoryBroker) -> None:
        self._space = space
        self._broker = broker

    def promoted(self, job: str) -> Promotion | None:
        with self._space.changed:
            found = self._space.promoted.get(job)
            return None if found is None else Promotion(found[0], found[1])

    def _stage(self, job: str, part: str, calls: Calls) -> None:
        pushes = _pushes(calls)
        with self._space.changed:
            parts, _ = self._space.staged.get(job, ({}, 0.0))
            parts.setdefault(part, []).extend(pushes)
            self._space.staged[job] = (parts, self._space.clock())

    def _promote(self, job: str, parts: Sequence[Part]) -> Promotion:
        with self._space.changed:
            before = self.promoted(job)
            staged, _ = self._space.staged.get(job, ({}, 0.0))
            if before is None:
                for part in parts:
                    if (found := len(staged.get(part.name, ()))) != part.rows:
                        raise StoreRefused(incomplete(job, part, found))
                receipts = self._broker.push([push for part in parts for push in staged.get(part.name, ())])
                created = sum(receipt.created for receipt in receipts)
                self._space.promoted[job] = (created, len(receipts) - created, self._space.clock())
            self._discard(job)
            return before or Promotion(created, len(receipts) - created)

    def _discard(self, job: str) -> None:
        with self._space.changed:
            self._space.staged.pop(job, None)


def prune(space: Space) -> int:
    """Drop leftovers of jobs that never ended, and the memory of those that ended long ago."""
    now = space.clock()
    leftovers = [job for job, (_, at) in space.staged.items() if at <= now - LEFTOVER_SECONDS]
    outlived = [job for job, (_, _, at) in space.promoted.items() if at <= now - space.retention.results_seconds]
    for job in leftovers:
        del space.staged[job]
    for job in outlived:
        del space.promoted[job]
    return len(leftovers) + len(outlived)


def _pushes(calls: Calls) -> list[Push]:
    columns: list[Any] = [
        repeat(None) if each is None else each for each in (calls.delays_seconds, calls.lifetimes_seconds)
    ]
    return [Push(decode(body), delay, lifetime) for body, delay, lifetime in zip(calls.bodies, *columns, strict=False)]
