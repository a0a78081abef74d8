"""Keep dead letters in memory."""

from stem.backends.memory.state import MemoryLetter, MemoryState
from stem.contracts.deadletters import DeadLetters
from stem.core.delivery import DeadFilter, DeadLetter
from stem.core.lifecycle import EventKind
from stem.core.record import Page, moment, replay_notes, with_replays


class MemoryDeadLetters(DeadLetters):
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def get(self, task_id: str) -> DeadLetter | None:
        with self._state.changed:
            dead = self._state.dead.get(task_id)
            return _letter(dead) if dead else None

    def page(self, where: DeadFilter, *, limit: int, cursor: str | None = None) -> Page[DeadLetter]:
        with self._state.changed:
            found = [dead for dead in self._matching(where) if cursor is None or dead.seq < int(cursor)]
            more = len(found) > limit > 0
            return Page([_letter(dead) for dead in found[: max(0, limit)]], str(found[limit - 1].seq) if more else None)

    def replay(
        self, where: DeadFilter, *, limit: int = 1000, delay_seconds: float = 0.0, dry_run: bool = False
    ) -> list[str]:
        with self._state.changed:
            chosen = self._matching(where)[:limit]
            if not dry_run:
                for dead in chosen:
                    self._replay(dead, delay_seconds)
                self._state.changed.notify_all()
            return [dead.task.id for dead in chosen]

    def purge(self, where: DeadFilter, *, limit: int = 1000) -> int:
        with self._state.changed:
            chosen = self._matching(where)[:limit]
            for dead in chosen:
                del self._state.dead[dead.task.id]
                dead.task.body = b""
            return len(chosen)

    def _replay(self, dead: MemoryLetter, delay_seconds: float) -> None:
        task, now = dead.task, self._state.clock()
        del self._state.dead[task.id]
        task.attempt = task.deaths = 0
        task.error = task.finished_at = task.expires_at = task.heartbeat_at = None
        task.meta |= replay_notes(task.meta, moment(now))
        self._state.wait_again(task, now, now + delay_seconds)
        self._state.tell(EventKind.REPLAYED, task, now)

    def _matching(self, where: DeadFilter) -> list[MemoryLetter]:
        return sorted(
            (dead for dead in self._state.dead.values() if _matches(dead, where)),
            key=lambda dead: dead.seq,
            reverse=True,
        )


def _matches(dead: MemoryLetter, where: DeadFilter) -> bool:
    return (
        (where.ids is None or dead.task.id in where.ids)
        and where.queue in (None, dead.task.queue)
        and where.name in (None, dead.task.name)
        and where.reason in (None, dead.reason)
        and (where.since is None or moment(dead.dead_at) >= where.since)
        and (where.until is None or moment(dead.dead_at) < where.until)
    )


def _letter(dead: MemoryLetter) -> DeadLetter:
    task = dead.task
    return DeadLetter(
        task.id,
        task.name,
        task.queue,
        task.attempt,
        dead.reason,
        task.error,
        with_replays(dead.meta, task.meta),
        moment(dead.dead_at),
        task.body,
        task.worker,
    )
