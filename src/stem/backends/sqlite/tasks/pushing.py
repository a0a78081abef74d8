"""Turn pushes into rows. A known id is left alone; a unique key that is held answers with its holder, or is taken over."""

import sqlite3
from collections.abc import Sequence

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.tasks import retention
from stem.backends.sqlite.tasks.prerequisites import Linking, linked
from stem.backends.sqlite.tasks.superseding import supersede
from stem.backends.sqlite.tasks.task_row import TOP_PRIORITY, TaskRow, json_or_none, json_text
from stem.backends.sqlite.tasks.write_batch import WriteBatch
from stem.backends.tenants import tenant_data
from stem.core.envelope import Envelope, Push, Receipt, Supersedes, Unique
from stem.core.outcome import Block

# The stored holder of a key, when the key falls free if that is not at the holder's end, when its series of pushes began, and
# when the holder was due
Held = tuple[str | None, float | None, float | None, float | None]


class Pushing:
    """The pushes of one transaction. Ids and keys are looked up once, then followed here as the batch grows."""

    def __init__(
        self,
        namespace: SqliteNamespace,
        batch: WriteBatch,
        connection: sqlite3.Cursor,
        pushes: Sequence[Push],
        *,
        blocks: Sequence[Block] = (),
        links: bool = True,
    ) -> None:
        """`blocks` are settlements of the same transaction. Without `links` nothing waits, whatever it names."""
        self._namespace = namespace
        self._ns = namespace.ns
        self._batch = batch
        self._now = batch.now
        self._connection = connection
        self._seq = namespace.first + namespace.take_numbers(connection, "seq", len(pushes)) - 1
        self._known = self._find_known(namespace, [push.envelope.id for push in pushes])
        self._holders: dict[str, str | None] = {}
        self.cancelled: set[str] = set()  # in this transaction: they hold no key any more
        self.linking = self._links(namespace, pushes, blocks) if links else None
        self._add_task = batch.add["task_insert"]
        self._add_ready = batch.add["ready_insert"]
        self._add_delayed = batch.add["delayed_insert"]

    def push(self, push: Push, body: bytes) -> Receipt:
        envelope, unique = push.envelope, push.unique
        id = envelope.id
        if id in self._known:
            return Receipt(id, False)
        if unique is None:
            self._known.add(id)
            self._store(push, envelope, None, body, None)
            return Receipt(id, True)
        since, superseded = self._now, None
        if (holder := self._holder(unique.key)) is not None:
            if unique.supersedes is None:
                return Receipt(holder, False)
            superseded, since = self._supersede(unique, unique.supersedes)
        self._known.add(id)
        latest = None if unique.max_delay_seconds is None else since + unique.max_delay_seconds
        due_at = self._store(push, envelope, unique.key, body, latest)
        self._hold(unique, id, since, due_at)
        return Receipt(id, True, superseded)

    def released(self, task: TaskRow) -> None:
        """A task that ended in this transaction holds its key no longer."""
        if task.unique_key is not None and self._held(task.unique_key)[:2] == (task.id, None):
            self._holders[task.unique_key] = None

    def close(self) -> None:
        """Before the batch is written."""
        if self.linking is not None:
            self.linking.close()

    def _links(self, namespace: SqliteNamespace, pushes: Sequence[Push], blocks: Sequence[Block]) -> Linking | None:
        waiting = linked(pushes)
        if not waiting and not blocks:
            return None
        new = {push.envelope.id for push in pushes} - self._known
        waits = [push.envelope.after for push in waiting if push.envelope.id in new] + [each.after for each in blocks]
        return Linking(namespace, self._batch, self._connection, {id for after in waits for id in after}, new)

    def _find_known(self, namespace: SqliteNamespace, ids: list[str]) -> set[str]:
        """Delete the outlived records of these ids, so that they can be used again, and return the ids that are left."""
        horizon = self._now - namespace.retention.results_seconds
        found = self._connection.execute(SQL["task_known"], (namespace.ns, json_text(ids), horizon)).fetchall()
        outlived = [(seq, awaited) for seq, _, is_outlived, awaited in found if is_outlived]
        gone = retention.unneeded(self._connection, outlived, horizon) if outlived else []
        retention.forget(self._connection, gone)
        return {id for seq, id, _, _ in found if seq not in gone}

    def _store(
        self, push: Push, envelope: Envelope, unique_key: str | None, body: bytes, latest: float | None
    ) -> float:
        """Returns when it is due, which is `latest` if that is earlier.

        Called for every task of every bulk enqueue: no detour here that most of them do not need."""
        now, id, name, queue, priority = self._now, envelope.id, envelope.name, envelope.queue, envelope.priority
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
        if latest is not None:
            due_at = min(due_at, latest)
        meta = json_or_none(envelope.meta) if envelope.meta else None
        visibility_timeout = envelope.visibility_timeout
        row = (seq, id, name, queue, priority, now, expires_at, visibility_timeout, unique_key, meta, body)
        data = tenant_data(envelope) if envelope.headers else None
        self._batch.add_line(("enqueued", now, id, name, queue, 0, None, now, None, data))
        if self.linking is None:
            self._add_task(row)
        elif self.linking.store(push, row):
            return due_at
        if due_at <= now:
            self._add_ready((self._ns, queue, TOP_PRIORITY - priority, seq, due_at))
        else:
            self._add_delayed((self._ns, queue, due_at, seq))
        self._batch.queues.add(queue)
        return due_at

    def _holder(self, key: str) -> str | None:
        if key not in self._holders:
            self._holders[key] = self._held(key)[0]
        holder = self._holders[key]
        return None if holder in self.cancelled else holder

    def _held(self, key: str) -> Held:
        row = self._connection.execute(SQL["unique_get"], (self._ns, key, self._now)).fetchone()
        return row or (None, None, None, None)

    def _hold(self, unique: Unique, id: str, since: float, due_at: float) -> None:
        held_until = None if unique.seconds is None else self._now + unique.seconds
        self._batch.add["unique_put"]((self._ns, unique.key, id, held_until, since, due_at))
        ended = {} if self.linking is None else self.linking.ended
        is_held = (held_until is None and id not in ended) or (held_until or 0.0) > self._now
        self._holders[unique.key] = id if is_held and not ended.get(id) else None

    def _supersede(self, unique: Unique, which: Supersedes) -> tuple[str | None, float]:
        """The id of the task that was cancelled, if any, and when the series of such pushes began."""
        self.close()
        self._batch.write(self._connection)  # the holder may have come, or changed, in this transaction
        holder, _, since, due_at = self._held(unique.key)
        if holder is None:
            return None, self._now
        task = supersede(self._connection, self._namespace, self._batch, holder, due_at, which)
        if task is None:
            return None, self._now
        self.cancelled.add(task.id)
        if self.linking is not None:
            self.linking.changed(task.id, task.state, task.error, has_succeeded=False)
        has_been_claimed = task.fence > 0  # which ended its series
        return task.id, self._now if has_been_claimed or since is None else since
