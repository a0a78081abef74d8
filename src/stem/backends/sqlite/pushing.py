"""Turn pushes into rows: what is known is left alone, a held key answers with its holder."""

import sqlite3
from collections.abc import Sequence

import msgspec

from stem.backends.sqlite.draft import Draft
from stem.backends.sqlite.space import Space
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.task import TOP_PRIORITY, Task, json_or_none
from stem.core.envelope import Envelope, Push, Receipt, Unique


class Pushing:
    """The pushes of one transaction. Ids and keys are looked up once, then followed here as the draft grows."""

    def __init__(self, space: Space, draft: Draft, connection: sqlite3.Cursor, pushes: Sequence[Push]) -> None:
        self._ns = space.ns
        self._draft = draft
        self._now = draft.now
        self._connection = connection
        self._seq = space.first + space.take_numbers(connection, "seq", len(pushes)) - 1
        ids = msgspec.json.encode([push.envelope.id for push in pushes]).decode()
        self._known = {id for (id,) in connection.execute(SQL["task_known"], (space.ns, ids))}
        self._holders: dict[str, str | None] = {}
        self.cancelled: set[str] = set()  # in this transaction: they hold no key any more
        self._add_task = draft.add["task_insert"]
        self._add_ready = draft.add["ready_insert"]
        self._add_delayed = draft.add["delayed_insert"]

    def push(self, push: Push, body: bytes) -> Receipt:
        envelope, unique = push.envelope, push.unique
        id = envelope.id
        if id in self._known:
            return Receipt(id, False)
        if unique is not None and (holder := self._holder(unique.key)) is not None:
            return Receipt(holder, False)
        self._known.add(id)
        self._store(push, envelope, None if unique is None else self._hold(unique, id), body)
        return Receipt(id, True)

    def released(self, task: Task) -> None:
        """A task that ended in this transaction holds its key no longer."""
        if task.unique_key is not None:
            self._holders[task.unique_key] = None

    def _store(self, push: Push, envelope: Envelope, unique_key: str | None, body: bytes) -> None:
        """Called for every task of every bulk enqueue: no detour here that most of them do not need."""
        now, name, queue, priority = self._now, envelope.name, envelope.queue, envelope.priority
        self._seq = seq = self._seq + 1
        expires_at = None
        if push.expires_seconds is not None:
            expires_at = now + push.expires_seconds
        elif envelope.expires_at is not None:
            expires_at = envelope.expires_at.timestamp()
        due_at = now
        if push.delay_seconds is not None:
            due_at = now + push.delay_seconds
        elif envelope.not_before is not None:
            due_at = envelope.not_before.timestamp()
        meta = json_or_none(envelope.meta) if envelope.meta else None
        self._add_task(
            (
                seq,
                envelope.id,
                name,
                queue,
                priority,
                now,
                expires_at,
                envelope.visibility_timeout,
                unique_key,
                meta,
                body,
            )
        )
        if due_at <= now:
            self._add_ready((self._ns, queue, TOP_PRIORITY - priority, seq, due_at))
        else:
            self._add_delayed((self._ns, queue, due_at, seq))
        self._draft.add_line(("enqueued", now, envelope.id, name, queue, 0, None, now, None, None))
        self._draft.queues.add(queue)

    def _holder(self, key: str) -> str | None:
        if key not in self._holders:
            row = self._connection.execute(SQL["unique_get"], (self._ns, key, self._now)).fetchone()
            self._holders[key] = row[0] if row else None
        holder = self._holders[key]
        return None if holder in self.cancelled else holder

    def _hold(self, unique: Unique, id: str) -> str | None:
        """Returns the key if it is the task's end that frees it."""
        held_until = None if unique.seconds is None else self._now + unique.seconds
        self._draft.add["unique_put"]((self._ns, unique.key, id, held_until))
        if held_until is None or held_until > self._now:
            self._holders[unique.key] = id
        return unique.key if held_until is None else None
