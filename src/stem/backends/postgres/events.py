"""The event log in Postgres.

A reader sees an event once every transaction older than the event's has ended, so that none is skipped: while some
writing transaction stays open, on any database of the server, newer events wait for it.
"""

import time
from typing import Any

import msgspec

from stem.backends.postgres.codec.rows import event
from stem.backends.postgres.codec.text_columns import utf8
from stem.backends.postgres.namespace import PostgresNamespace
from stem.backends.postgres.notify.notifier import Notification, notification
from stem.contracts.events import Events
from stem.core.errors import UsageError
from stem.core.event import Event
from stem.core.lifecycle import EventKind

# Most older transactions end within a millisecond: a reader that waits this long sees what it has just written itself.
PATIENCE_SECONDS = 0.05
GLANCE_SECONDS = 0.002


class PostgresEvents(Events):
    def __init__(self, namespace: PostgresNamespace) -> None:
        self._namespace = namespace

    def read(self, after: str | None, *, limit: int) -> list[Event]:
        rows = self._rows(after, limit)
        patient_until = time.monotonic() + PATIENCE_SECONDS
        while len(rows) < limit and self._is_hidden(str(rows[-1][0]) if rows else after, patient_until):
            rows = self._rows(after, limit)
        if rows:
            self._namespace.flush()  # a crash of the server must not take back what somebody has read
        return [event(row) for row in rows]

    def head(self) -> str | None:
        head = self._head()
        patient_until = time.monotonic() + PATIENCE_SECONDS
        while self._is_hidden(head, patient_until):
            head = self._head()
        if head is not None:
            self._namespace.flush()
        return head

    def wait(self, after: str | None, *, timeout_seconds: float) -> bool:
        txid, n = position(after)

        def look(left: float) -> bool:
            return bool(self._namespace.query("events_any", txid=txid, n=n, timeout_seconds=left)[0][0])

        def concerns(told: Notification) -> bool:
            return told.logged

        return bool(self._namespace.listeners.log.wait_until(concerns, look, timeout_seconds))

    def _note(self, kind: EventKind, worker: str, data: msgspec.Raw) -> None:
        self._namespace.query("note", kind=kind.value, worker=worker, data=utf8(data))
        self._namespace.notify(notification())

    def _rows(self, after: str | None, limit: int) -> list[tuple[Any, ...]]:
        txid, n = position(after)
        return self._namespace.query("events_read", txid=txid, n=n, limit=max(0, limit))

    def _head(self) -> str | None:
        rows = self._namespace.query("events_head")
        return str(rows[0][0]) if rows else None

    def _is_hidden(self, after: str | None, patient_until: float) -> bool:
        """True: something after the offset waits for an older transaction, and it is worth a second look."""
        txid, n = position(after)
        if time.monotonic() >= patient_until or not self._namespace.query("events_hidden", txid=txid, n=n)[0][0]:
            return False
        time.sleep(GLANCE_SECONDS)
        return True


def position(offset: str | None) -> tuple[str, int]:
    txid, dash, n = (offset or "0-0").partition("-")
    if not (dash and txid.isdecimal() and n.isdecimal()):
        raise UsageError(f"{offset!r} is not an offset of this store's event log; use one that it gave, or None.")
    return txid, int(n)
