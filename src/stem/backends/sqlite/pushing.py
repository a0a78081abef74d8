"""Turn pushes into rows: what is known is left alone, a held key answers with its holder."""

import sqlite3
from collections.abc import Sequence

import msgspec

from stem.backends.sqlite.draft import Draft
from stem.backends.sqlite.space import Space
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.task import TOP_PRIORITY, Task, json_or_none
from stem.core.envelope import Push, Receipt


class Pushing:
    """The pushes of one transaction. Ids and keys are looked up once, then followed here as the draft grows."""

    def __init__(self, space: Space, draft: Draft, connection: sqlite3.Cursor, pushes: Sequence[Push]) -> None:
        self._space = space
        self._draft = draft
        self._connection = connection
        self._seq = space.first + space.take_numbers(connection, "seq", len(pushes))
        ids = msgspec.json.encode([push.envelope.id for push in pushes]).decode()
        self._known = {id for (id,) in connection.execute(SQL["task_known"], (space.ns, ids))}
        self._holders: dict[str, str | None] = {}

    def push(self, push: Push, body: bytes) -> Receipt:
        envelope = push.envelope
        if envelope.id in self._known:
            return Receipt(envelope.id, False)
        if push.unique is not None and (holder := self._holder(push.unique.key)) is not None:
            return Receipt(holder, False)
        self._known.add(envelope.id)
        self._store(push, body)
        return Receipt(envelope.id, True)

    def released(self, task: Task) -> None:
        """A task that ended in this transaction holds its key no longer."""
        if task.unique_key is not None:
            self._holders[task.unique_key] = None

    def _holder(self, key: str) -> str | None:
        if key not in self._holders:
            row = self._connection.execute(SQL["unique_get"], (self._space.ns, key, self._draft.now)).fetchone()
            self._holders[key] = row[0] if row else None
        return self._holders[key]

    def _store(self, push: Push, body: bytes) -> None:
        draft, now, ns, envelope = self._draft, self._draft.now, self._space.ns, push.envelope
        seq, queue = self._seq, envelope.queue
        self._seq += 1
        draft.add["task_insert"](
            (
                seq, envelope.id, envelope.name, queue, envelope.priority, now, _expires_at(push, now),
                envelope.visibility_timeout, self._hold_key(push), json_or_none(envelope.meta), body,
            )
        )  # fmt: skip
        draft.add_line(("enqueued", now, envelope.id, envelope.name, queue, 0, None, now, None, None))
        due_at = _due_at(push, now)
        if due_at <= now:
            draft.add["ready_insert"]((ns, queue, TOP_PRIORITY - envelope.priority, seq, due_at))
        else:
            draft.add["delayed_insert"]((ns, queue, due_at, seq))
        draft.topics.add(f"queue:{queue}")

    def _hold_key(self, push: Push) -> str | None:
        """The key, if the task's end is to free it."""
        if push.unique is None:
            return None
        key, seconds = push.unique.key, push.unique.seconds
        held_until = None if seconds is None else self._draft.now + seconds
        self._draft.add["unique_put"]((self._space.ns, key, push.envelope.id, held_until))
        if held_until is None or held_until > self._draft.now:
            self._holders[key] = push.envelope.id
        return key if seconds is None else None


def _due_at(push: Push, now: float) -> float:
    if push.delay_seconds is not None:
        return now + push.delay_seconds
    return now if push.envelope.not_before is None else push.envelope.not_before.timestamp()


def _expires_at(push: Push, now: float) -> float | None:
    if push.expires_seconds is not None:
        return now + push.expires_seconds
    return None if push.envelope.expires_at is None else push.envelope.expires_at.timestamp()
