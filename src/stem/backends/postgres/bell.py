"""Wake whoever waits in other processes: one NOTIFY for all news of a few milliseconds, after the commit it tells of.

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
from psycopg.errors import Error

from stem.backends.postgres.exchange import Statement
from stem.backends.postgres.speaking import Speaking
from stem.core.errors import StemError

NOTIFY = "SELECT pg_notify(%s, told) FROM unnest(%s::text[]) AS told"
_TELL = b"SELECT pg_notify($1, $2)"
_GAP_SECONDS = 0.004
_MOST_IDS = 800  # in one notification
_MOST_PARTS = 20
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
    queues: Iterable[str] = (),
    boxes: Iterable[str] = (),
    ended: Iterable[str] = (),
    *,
    logged: bool = True,
    any_queue: bool = False,
) -> News:
    return News(set(queues), set(boxes), {mark(task_id) for task_id in ended}, logged, any_queue)


def mark(task_id: str) -> int:
    """A short stand-in for an id: notifications are small, and a wake-up for nothing does no harm."""
    return crc32(task_id.encode(errors="replace")) & 0xFFFFFF


def channel_of(schema: str, namespace: str) -> str:
    return "stem_" + hashlib.sha256(f"{schema}/{namespace}".encode()).hexdigest()[:24]


def payloads(told: News) -> list[str]:
    """The news in as few notifications as they fit in; if they are too many, one that says so."""
    if len(told.ended) <= _MOST_IDS and len(whole := msgspec.json.encode(told)) <= _MOST_BYTES:
        return [whole.decode()]
    ended = list(told.ended)
    parts = [News(told.queues, told.boxes, set(), told.logged, told.any_queue, told.lost)]
    parts += [News(ended=set(ended[first : first + _MOST_IDS])) for first in range(0, len(ended), _MOST_IDS)]
    encoded = [msgspec.json.encode(part) for part in parts]
    if len(encoded) > _MOST_PARTS or len(encoded[0]) > _MOST_BYTES:
        encoded = [msgspec.json.encode(News(lost=True))]
    return [each.decode() for each in encoded]


class Bell:
    def __init__(self, link: Speaking, channel: str) -> None:
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
                if self._ringer is None or not self._ringer.is_alive():  # in a forked child its thread is gone
                    self._ringer = threading.Timer(wait, self.flush)
                    self._ringer.daemon = True
                    self._ringer.start()
                return
        self.flush()

    def along(self, fresh: News) -> list[Statement]:
        """What tells it, to be sent in one go with the change it tells of; nothing if something was told just before, so that
        it is to be rung for. Should the sending fail, the slow polls find out."""
        with self._lock:
            if monotonic() < self._rung_at + _GAP_SECONDS:
                return []
            told, self._untold = self._untold or News(), None
            self._rung_at = monotonic()
        told.add(fresh)
        return [Statement(_TELL, (self.channel, payload)) for payload in payloads(told)]

    def flush(self) -> None:
        with self._lock:
            told, self._untold = self._untold, None
            self._ringer = None  # what is rung while this is being sent needs another
            self._rung_at = monotonic()
        if told is None or self._link.is_closed:
            return
        try:
            self._link.rows(NOTIFY, (self.channel, payloads(told)), timeout_seconds=1.0)
        except (StemError, Error):
            return  # the change itself is committed; those who wait find it by their slow poll

    def close(self) -> None:
        self.flush()
        atexit.unregister(self.flush)
