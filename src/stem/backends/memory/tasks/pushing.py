"""Turn pushes into tasks in memory. A known id is left alone; a unique key that is held answers with its holder."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from stem.backends.memory.state import MemoryState, MemoryTask
from stem.backends.memory.tasks.endings import Endings
from stem.core.delivery import Ending
from stem.core.envelope import Push, Receipt, Supersedes, Unique
from stem.core.errors import StoreRefused
from stem.core.lifecycle import TERMINAL, EventKind, State
from stem.core.outcome import Block, Cancelled, Dead, Done
from stem.core.prerequisites import SPAWNED


@dataclass(slots=True)
class CallSoFar:
    """What a call will have done before its next push."""

    stored: set[str] = field(default_factory=set)
    freed_keys: set[str] = field(default_factory=set)
    taken_keys: set[str] = field(default_factory=set)


class MemoryPushing:
    def __init__(self, state: MemoryState, endings: Endings) -> None:
        self._state = state
        self._endings = endings

    def check(self, pushes: Sequence[Push], batch: CallSoFar) -> None:
        """Raises StoreRefused, before anything is written, for a prerequisite or a join that is not there."""
        for push in pushes:
            if push.envelope.id in batch.stored or self._state.is_known(push.envelope.id):
                continue
            self.check_known(push.envelope.after, batch)
            join = None if push.into is None else self._state.tasks.get(push.into)
            if push.into is not None and (join is None or not join.is_open_join):
                raise StoreRefused(
                    f"There is no join {push.into} that still waits for its members; nothing was stored."
                )
            if push.unique is None or self._will_take(push.unique, batch):
                batch.stored.add(push.envelope.id)

    def check_ending(self, ending: Ending, batch: CallSoFar) -> None:
        """The same for all that an ending pushes and waits for."""
        settlement, task = ending.settlement, self._state.tasks[ending.lease.id]
        if isinstance(settlement, Done | Dead | Cancelled) and task.unique_key is not None:
            holder, held_until, _ = self._state.uniques.get(task.unique_key, ("", None, 0.0))
            if holder == task.id and (held_until is None or isinstance(settlement, Cancelled)):
                batch.freed_keys.add(task.unique_key)
        self.check(ending.follow_ups, batch)
        if isinstance(settlement, Block):
            self.check_known(settlement.after, batch, but=task.id)

    def check_known(self, after: Sequence[str], batch: CallSoFar, *, but: str | None = None) -> None:
        for id in after:
            if id == but or not (id in batch.stored or self._state.is_known(id)):
                raise StoreRefused(
                    f"There is no task {id} to wait for; nothing was stored. Enqueue it first, or in the same call."
                )

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
        task = _task(push, body, state.number("seq"), now)
        if unique is not None:
            state.uniques[unique.key] = (task.id, None if unique.seconds is None else now + unique.seconds, since)
        state.tasks[task.id] = task
        state.steps.pop(task.id, None)  # of a task whose id may be used again
        state.tell(EventKind.ENQUEUED, task, now)
        if push.into is not None:
            self._add_member(state.tasks[push.into], task)
        if not ((envelope.after or envelope.is_join) and self._endings.block(task, envelope.after, now)):
            due_at = task.due_at if push.delay_seconds is None else now + push.delay_seconds
            if unique is not None and unique.max_delay_seconds is not None:
                due_at = min(due_at, since + unique.max_delay_seconds)
            state.enter(task, now, due_at)
        return Receipt(task.id, created=True, superseded=superseded)

    def _add_member(self, join: MemoryTask, task: MemoryTask) -> None:
        join.pending.add(task.id)
        join.meta[SPAWNED + task.id] = True
        task.dependents.append(join.id)

    def _will_take(self, unique: Unique, batch: CallSoFar) -> bool:
        """Whether a push with this key will be stored, rather than answered with the key's holder."""
        key = unique.key
        is_free = key in batch.freed_keys or self._holder(key, self._state.clock()) is None
        if unique.supersedes is None and (key in batch.taken_keys or not is_free):
            return False
        batch.taken_keys.add(key)
        return True

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
        has_been_claimed = task.fence > 0  # which ended its series
        since = now if has_been_claimed else self._state.uniques[unique.key][2]
        if not is_waiting and unique.supersedes is not Supersedes.RUNNING:
            return None, now
        self._endings.cancel(task, "superseded", now)
        return holder, since


def _task(push: Push, body: bytes, seq: int, now: float) -> MemoryTask:
    envelope = push.envelope
    expires_at = None if envelope.expires_at is None else envelope.expires_at.timestamp()
    if push.expires_seconds is not None:
        expires_at = now + push.expires_seconds
    return MemoryTask(
        seq=seq,
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
        due_at=now if envelope.not_before is None else envelope.not_before.timestamp(),
        expires_at=expires_at,
        unique_key=None if push.unique is None else push.unique.key,
        on_failure=envelope.on_failure,
        release_delay=push.delay_seconds,
        is_join=envelope.is_join,
        ends_when_released=envelope.is_join,
    )
