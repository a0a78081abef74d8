"""Stage pushes in memory."""

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from stem.backends.memory.state import MemoryState
from stem.backends.memory.tasks.broker import MemoryBroker
from stem.contracts.staging import LEFTOVER_SECONDS, Calls, Part, Promotion, Staging, incomplete
from stem.core.envelope import Push, decode
from stem.core.errors import StoreRefused


class MemoryStaging(Staging):
    def __init__(self, state: MemoryState, broker: MemoryBroker) -> None:
        self._state = state
        self._broker = broker

    def promoted(self, job: str) -> Promotion | None:
        with self._state.changed:
            found = self._state.promoted.get(job)
            return None if found is None else Promotion(found[0], found[1])

    def _stage(self, job: str, part: str, calls: Calls) -> None:
        pushes = _pushes(calls)
        with self._state.changed:
            parts, _ = self._state.staged.get(job, ({}, 0.0))
            parts.setdefault(part, []).extend(pushes)
            self._state.staged[job] = (parts, self._state.clock())

    def _promote(self, job: str, parts: Sequence[Part], pushes: Sequence[Push]) -> Promotion:
        with self._state.changed:
            before = self.promoted(job)
            staged, _ = self._state.staged.get(job, ({}, 0.0))
            if before is None:
                for part in parts:
                    if (found := len(staged.get(part.name, ()))) != part.rows:
                        raise StoreRefused(incomplete(job, part, found))
                staged_pushes = [push for part in parts for push in staged.get(part.name, ())]
                receipts = self._broker.push([*staged_pushes, *pushes])[: len(staged_pushes)]
                created = sum(receipt.created for receipt in receipts)
                self._state.promoted[job] = (created, len(receipts) - created, self._state.clock())
            self._discard(job)
            return before or Promotion(created, len(receipts) - created)

    def _discard(self, job: str) -> None:
        with self._state.changed:
            self._state.staged.pop(job, None)


def prune(state: MemoryState) -> int:
    """Drop leftovers of jobs that never ended, and the memory of those that ended long ago."""
    now = state.clock()
    leftovers = [job for job, (_, at) in state.staged.items() if at <= now - LEFTOVER_SECONDS]
    outlived = [job for job, (_, _, at) in state.promoted.items() if at <= now - state.retention.results_seconds]
    for job in leftovers:
        del state.staged[job]
    for job in outlived:
        del state.promoted[job]
    return len(leftovers) + len(outlived)


def _pushes(calls: Calls) -> list[Push]:
    columns: list[Any] = [
        repeat(None) if each is None else each for each in (calls.delays_seconds, calls.lifetimes_seconds)
    ]
    return [Push(decode(body), delay, lifetime) for body, delay, lifetime in zip(calls.bodies, *columns, strict=False)]
