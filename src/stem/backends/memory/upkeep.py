"""Pruning and closing of a memory store."""

from collections import deque

from stem.backends.memory.revokes import MemoryRevokes
from stem.backends.memory.rollups import prune as prune_rollups
from stem.backends.memory.space import Door, Posted, Space
from stem.backends.memory.staging import prune as prune_staged
from stem.contracts.store import Diagnosis, Upkeep
from stem.core.watch import LOST_SECONDS


class MemoryUpkeep(Upkeep):
    def __init__(self, space: Space, door: Door) -> None:
        self._space = space
        self._door = door

    def now(self) -> float:
        return self._space.clock()

    def diagnose(self) -> Diagnosis:
        return Diagnosis(
            backend="memory",
            server="this process",
            latency_seconds=0.0,
            warnings=["Tasks live in this process's memory and end with it; use sqlite:///stem.db to keep them."],
        )

    def prune(self) -> int:
        with self._space.changed:
            return (
                self._prune_tasks()
                + self._prune_events()
                + self._prune_leases()
                + self._prune_limits()
                + self._prune_mail(self._space.boxes)
                + self._prune_mail(self._space.channels)
                + MemoryRevokes(self._space).prune()
                + prune_staged(self._space)
                + prune_rollups(self._space)
            )

    def close(self) -> None:
        """The space lives on for other stores of the same URL, and goes with the last of them."""
        with self._space.changed:
            self._door.is_closed = True
            self._space.changed.notify_all()

    def _prune_tasks(self) -> int:
        old = [task.id for task in self._space.tasks.values() if self._space.is_outlived(task)]
        for task_id in old:
            del self._space.tasks[task_id]
        return len(old)

    def _prune_events(self) -> int:
        space = self._space
        horizon = space.clock() - space.retention.events_seconds
        before = len(space.log)
        while space.log and (
            len(space.log) > space.retention.events_count or space.log[0][1].at.timestamp() <= horizon
        ):
            space.log.popleft()
        return before - len(space.log)

    def _prune_leases(self) -> int:
        """Locks, heartbeats and unique keys that nobody holds any more."""
        now = self._space.clock()
        locks = [name for name, (_, _, until) in self._space.locks.items() if until <= now]
        workers = [worker for worker, (_, _, until) in self._space.heartbeats.items() if until <= now]
        keys = [key for key, (_, until) in self._space.uniques.items() if until is not None and until <= now]
        lost = [lease for lease, at in self._space.lost.items() if at <= now - LOST_SECONDS]
        for name in locks:
            del self._space.locks[name]
        for worker in workers:
            del self._space.heartbeats[worker]
        for key in keys:
            del self._space.uniques[key]
        for lease in lost:
            del self._space.lost[lease]
        return len(locks) + len(workers) + len(keys) + len(lost)

    def _prune_limits(self) -> int:
        """Buckets that are full again, and places whose holder is gone."""
        now = self._space.clock()
        buckets = [key for key, (_, until) in self._space.buckets.items() if until <= now]
        for key in buckets:
            del self._space.buckets[key]
        pruned = len(buckets)
        for key, holders in list(self._space.places.items()):
            live = {holder: until for holder, until in holders.items() if until > now}
            pruned += len(holders) - len(live)
            if live:
                self._space.places[key] = live
            else:
                del self._space.places[key]
        return pruned

    def _prune_mail(self, boxes: dict[str, deque[Posted]]) -> int:
        now = self._space.clock()
        pruned = 0
        for name in list(boxes):
            before = len(boxes[name])
            boxes[name] = deque(posted for posted in boxes[name] if posted.expires_at > now)
            pruned += before - len(boxes[name])
            if not boxes[name]:
                del boxes[name]
        return pruned
