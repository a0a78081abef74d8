"""Turn pushes into tasks in memory. A known id is left alone; a unique key that is held answers with its holder."""

from collections.abc import Sequence

from stem.backends.memory.endings import Endings
from stem.backends.memory.state import MemoryState, MemoryTask
from stem.core.delivery import Ending
from stem.core.envelope import Push, Receipt, Supersedes, Unique
from stem.core.errors import StoreRefused
from stem.core.lifecycle import TERMINAL, EventKind, State
from stem.core.outcome import Block
from stem.core.prerequisites import SPAWNED


class MemoryPushing:
    def __init__(self, state: MemoryState, endings: Endings) -> None:
        self._state = state
        self._endings = endings

    def check(self, pushes: Sequence[Push], endings: Sequence[Ending] = ()) -> None:
        """Raises StoreRefused, before anything is written, for a prerequisite or a join that is not there."""
        earlier: set[str] = set()
        for push in pushes:
            if not self._state.is_known(push.envelope.id):
                self._endings.check_known(push.envelope.after, earlier)
                join = None if push.into is None else self._state.tasks.get(push.into)
                if push.into is not None and (join is None or not (join.is_blocked and join.is_join)):
                    raise StoreRefused(
                        f"There is no join {push.into} that still waits for its members; nothing was stored."
                    )
            if push.unique is None:
                earlier.add(push.envelope.id)
        for ending in endings:
            if isinstance(ending.settlement, Block):
                self._endings.check_known(ending.settlement.after, earlier)

    def push(self, push: Push, body: bytes) -> Receipt:
        state, envelope = self._state, push.envelope
        now = state.clock()
        if state.is_known(envelope.id):
            return Receipt(envelope.id, created=False)
        since, superseded, unique = now, None, push.unique
        if unique is not None and (holder := self._holder(unique.key, now)) is not None:
            if unique.supersedes is None:
                return Receipt(holder, created=False)
            superseded, since = self._supersede(unique, holder, now)
        task = MemoryTask(
            seq=state.number("seq"),
            id=envelope.id,
            name=envelope.name,
            queue=envelope.queue,
            priority=envelope.priority,
            enqueued_at=now,
            updated_at=now,
            meta=dict(envelope.meta),
            tenant=envelope.headers.get("tenant") or None,
            body=body,
            visibility_timeout=envelope.visibility_timeout,
            on_failure=envelope.on_failure,
            release_delay=push.delay_seconds,
            is_join=envelope.is_join,
            ends_when_released=envelope.is_join,
        )
        if push.expires_seconds is not None:
            task.expires_at = now + push.expires_seconds
        elif envelope.expires_at is not None:
            task.expires_at = envelope.expires_at.timestamp()
        if unique is not None:
            state.uniques[unique.key] = (task.id, None if unique.seconds is None else now + unique.seconds, since)
            task.unique_key = unique.key
        state.tasks[task.id] = task
        state.tell(EventKind.ENQUEUED, task, now)
        if push.into is not None:
            join = state.tasks[push.into]
            join.pending.add(task.id)
            join.meta[SPAWNED + task.id] = True
            task.dependents.append(join.id)
        task.due_at = envelope.not_before.timestamp() if envelope.not_before is not None else now
        if not ((envelope.after or envelope.is_join) and self._endings.block(task, envelope.after, now)):
            due_at = now + push.delay_seconds if push.delay_seconds is not None else task.due_at
            if unique is not None and unique.max_delay_seconds is not None:
                due_at = min(due_at, since + unique.max_delay_seconds)
            state.enter(task, now, due_at)
        return Receipt(task.id, created=True, superseded=superseded)

    def _holder(self, key: str, now: float) -> str | None:
        holder, held_until, _ = self._state.uniques.get(key, ("", 0.0, 0.0))
        if held_until is not None and held_until <= now:
            return None
        task = self._state.tasks.get(holder)
        return None if task is not None and task.state is State.CANCELLED else holder

    def _supersede(self, unique: Unique, holder: str, now: float) -> tuple[str | None, float]:
        """Cancel the holder of a key, if it waits or may be stopped; returns its id if so, and when its series began."""
        task = self._state.tasks.get(holder)
        if task is None or task.state in TERMINAL:
            return None, now
        is_waiting = bool(task.place) or task.is_blocked
        since = self._state.uniques[unique.key][2] if is_waiting else now
        if not is_waiting and unique.supersedes is not Supersedes.RUNNING:
            return None, now
        self._endings.cancel(task, "superseded", now)
        return holder, since
