"""Prune and close a memory store."""

from collections import deque

from stem.backends.memory.revokes import MemoryRevokes
from stem.backends.memory.rollups import prune as prune_rollups
from stem.backends.memory.staging import prune as prune_staged
from stem.backends.memory.state import MemoryState, Posted, StoreHandle
from stem.backends.memory.task_logs import prune as prune_task_logs
from stem.contracts.store import Diagnosis, Upkeep
from stem.core.decisions.reclaim_watch import LOST_SECONDS


class MemoryUpkeep(Upkeep):
    def __init__(self, state: MemoryState, handle: StoreHandle) -> None:
        self._state = state
        self._handle = handle

    def now(self) -> float:
        return self._state.clock()

    def diagnose(self) -> Diagnosis:
        return Diagnosis(
            backend="memory",
            server="this process",
            latency_seconds=0.0,
            warnings=["Tasks live in this process's memory and end with it; use sqlite:///stem.db to keep them."],
        )

    def prune(self) -> int:
        with self._state.changed:
            return (
                self._prune_tasks()
                + self._prune_events()
                + self._prune_leases()
                + self._prune_limits()
                + self._prune_mail(self._state.boxes)
                + self._prune_mail(self._state.channels)
                + MemoryRevokes(self._state).prune()
                + prune_staged(self._state)
                + prune_rollups(self._state)
                + prune_task_logs(self._state)
            )

    def close(self) -> None:
        """The state lives on for other stores of the same URL, and goes with the last of them."""
        with self._state.changed:
            self._handle.is_closed = True
            self._state.changed.notify_all()

    def _prune_tasks(self) -> int:
        state = self._state
        old = [task.id for task in state.tasks.values() if state.is_outlived(task) and not state.is_needed(task)]
        for task_id in old:
            del state.tasks[task_id]
            state.steps.pop(task_id, None)
        return len(old)

    def _prune_events(self) -> int:
        state = self._state
        horizon = state.clock() - state.retention.events_seconds
        before = len(state.log)
        while state.log and (
            len(state.log) > state.retention.events_count or state.log[0][1].at.timestamp() <= horizon
        ):
            state.log.popleft()
        return before - len(state.log)

    def _prune_leases(self) -> int:
        """Locks, heartbeats and unique keys that nobody holds any more."""
        now = self._state.clock()
        locks = [name for name, (_, _, until) in self._state.locks.items() if until <= now]
        workers = [worker for worker, (_, _, until) in self._state.heartbeats.items() if until <= now]
        keys = [key for key, (_, until, _) in self._state.uniques.items() if until is not None and until <= now]
        lost = [lease for lease, at in self._state.lost.items() if at <= now - LOST_SECONDS]
        for name in locks:
            del self._state.locks[name]
        for worker in workers:
            del self._state.heartbeats[worker]
        for key in keys:
            del self._state.uniques[key]
        for lease in lost:
            del self._state.lost[lease]
        return len(locks) + len(workers) + len(keys) + len(lost)

    def _prune_limits(self) -> int:
        """Buckets that are full again, and places whose holder is gone."""
        now = self._state.clock()
        buckets = [key for key, (_, until) in self._state.buckets.items() if until <= now]
        for key in buckets:
            del self._state.buckets[key]
        pruned = len(buckets)
        for key, holders in list(self._state.places.items()):
            live = {holder: until for holder, until in holders.items() if until > now}
            pruned += len(holders) - len(live)
            if live:
                self._state.places[key] = live
            else:
                del self._state.places[key]
        return pruned

    def _prune_mail(self, boxes: dict[str, deque[Posted]]) -> int:
        now = self._state.clock()
        pruned = 0
        for name in list(boxes):
            before = len(boxes[name])
            boxes[name] = deque(posted for posted in boxes[name] if posted.expires_at > now)
            pruned += before - len(boxes[name])
            if not boxes[name]:
                del boxes[name]
        return pruned
