"""Wake whoever waits in other processes: one NOTIFY for all news of a few milliseconds, sent after the commit it tells of.

A notification inside the writing transaction would make all writers commit one at a time. If the process dies between
commit and NOTIFY, the waiters' slow poll finds out.
"""

import atexit
import hashlib
import threading
from collections.abc import Iterable
from time import monotonic
from zlib import crc32

import msgspec
from psycopg import Error

from stem.backends.postgres.link import Link
from stem.core.errors import StemError

NOTIFY = "SELECT pg_notify(%s, %s)"
_GAP_SECONDS = 0.004
_MOST_IDS = 800
_MOST_BYTES = 7900  # Postgres takes less than 8000


class News(msgspec.Struct, omit_defaults=True):
    """What changed: queues with something to claim, mailboxes, ended tasks (by `mark`), whether events were logged, and whether
    tasks went back to queues whose names are not at hand.
    `lost` says that there is more than can be told, so everyone should look."""

    queues: set[str] = set()
    boxes: set[str] = set()
    ended: set[int] = set()
    logged: bool = False
    any_queue: bool = False
    lost: bool = False

    def add(self, other: "News") -> None:
        self.queues |= other.queues
        self.boxes |= other.boxes
        self.ended |= other.ended
        self.logged |= other.logged
        self.any_queue |= other.any_queue
        self.lost |= other.lost


def news(
    queues: Iterable[str] = (), boxes: Iterable[str] = (), ended: Iterable[str] = (), *, logged: bool = True
) -> News:
    return News(set(queues), set(boxes), {mark(task_id) for task_id in ended}, logged)


def mark(task_id: str) -> int:
    """A short stand-in for an id: notifications are small, and a wake-up for nothing does no harm."""
    return crc32(task_id.encode(errors="replace")) & 0xFFFFFF


def channel_of(schema: str, namespace: str) -> str:
    return "stem_" + hashlib.sha256(f"{schema}/{namespace}".encode()).hexdigest()[:24]


def payload(told: News) -> str:
    encoded = msgspec.json.encode(told) if len(told.ended) <= _MOST_IDS else b""
    if not encoded or len(encoded) > _MOST_BYTES:
        encoded = msgspec.json.encode(News(lost=True))
    return encoded.decode()


class Bell:
    def __init__(self, link: Link, channel: str) -> None:
        self._link = link
        self.channel = channel
        self._lock = threading.Lock()
        self._untold: News | None = None
        self._rung_at = 0.0
        self._ringer: threading.Timer | None = None
        atexit.register(self.flush)

    def ring(self, fresh: News) -> None:
        """Tell now, or within a few milliseconds if something was told just before."""
        with self._lock:
            if self._untold is None:
                self._untold = fresh
            else:
                self._untold.add(fresh)
            wait = self._rung_at + _GAP_SECONDS - monotonic()
            if wait > 0:
                if self._ringer is None or not self._ringer.is_alive():
                    self._ringer = threading.Timer(wait, self.flush)
                    self._ringer.daemon = True
                    self._ringer.start()
                return
        self.flush()

    def flush(self) -> None:
        with self._lock:
            told, self._untold = self._untold, None
            self._rung_at = monotonic()
        if told is None or self._link.is_closed:
            return
        try:
            self._link.rows(NOTIFY, (self.channel, payload(told)), timeout_seconds=1.0)
        except (StemError, Error):
            return  # the change itself is committed; those who wait find it by their slow poll

    def close(self) -> None:
        self.flush()
        atexit.unregister(self.flush)
