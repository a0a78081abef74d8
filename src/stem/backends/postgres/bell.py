"""Wake whoever waits in other processes: one NOTIFY for all news of a few milliseconds, after the commit it tells of.

Writers that notify commit one at a time, so one that waits for the disk meanwhile would hold up all others. If the process
dies between commit and NOTIFY, the waiters' slow poll finds out. A single push is not flushed as it commits and can be told
of at once; see sql/verbs/push_one.sql.
"""

import atexit
import hashlib
import threading
from collections.abc import Iterable
from functools import lru_cache
from time import monotonic
from zlib import crc32

import msgspec
from psycopg.errors import Error

from stem.backends.postgres.columns import array
from stem.backends.postgres.exchange import Statement
from stem.backends.postgres.speaking import Speaking
from stem.core.errors import StemError

_TELL = b"SELECT pg_notify(channel, told) FROM unnest($1::text[], $2::text[]) AS t (channel, told)"
NOTIFY = "SELECT pg_notify(channel, told) FROM unnest(%s::text[], %s::text[]) AS t (channel, told)"
KINDS = ("work", "mail", "ended", "log")  # each has a channel of its own: nobody is woken by what he does not wait for
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


def channel_for(channel: str, kind: str) -> str:
    return f"{channel}_{kind}"


def notices(channel: str, told: News) -> tuple[list[str], list[str]]:
    """Channels, and what is told on each. Of a kind of which there is more than can be told, that there is more."""
    channels, texts = [], []
    for kind, parts in zip(KINDS, _parts(told), strict=True):
        encoded = [msgspec.json.encode(part) for part in parts]
        if told.lost or len(encoded) > _MOST_PARTS or any(len(each) > _MOST_BYTES for each in encoded):
            encoded = [msgspec.json.encode(News(lost=True))]
        channels += [channel_for(channel, kind)] * len(encoded)
        texts += [each.decode() for each in encoded]
    return channels, texts


def _parts(told: News) -> tuple[list[News], ...]:
    ended = list(told.ended)
    return (
        [News(queues=told.queues, any_queue=told.any_queue)] if told.queues or told.any_queue else [],
        [News(boxes=told.boxes)] if told.boxes else [],
        [News(ended=set(ended[first : first + _MOST_IDS])) for first in range(0, len(ended), _MOST_IDS)],
        [News(logged=True)] if told.logged else [],
    )


Pushed = tuple[str, str, str]  # the channel of work, what is told there, the channel of the log


@lru_cache(maxsize=256)
def _pushed(channel: str, queue: str) -> Pushed:
    (work, log), (told, _) = notices(channel, news([queue]))
    return work, told, log


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

    def along(self, queue: str) -> Pushed | None:
        """What tells of a push, in its own transaction. None: something was told just before or waits to be, so that it is to
        be rung for."""
        now = monotonic()
        with self._lock:
            if self._untold is not None or now < self._rung_at + _GAP_SECONDS:
                return None
            self._rung_at = now
        return _pushed(self.channel, queue)

    def aboard(self, fresh: News) -> Statement | None:
        """What tells it and all that waits to be told, to be sent in one go with the change. None: something was told just
        before, so that it is to be rung for. Should the sending fail, the slow polls find out."""
        now = monotonic()
        with self._lock:
            if now < self._rung_at + _GAP_SECONDS:
                return None
            told, self._untold = self._untold, None
            self._rung_at = now
        if told is not None:
            fresh.add(told)
        channels, texts = notices(self.channel, fresh)
        return Statement(_TELL, (array(channels), array(texts)), is_vital=False)

    def flush(self) -> None:
        with self._lock:
            told, self._untold = self._untold, None
            self._ringer = None  # what is rung while this is being sent needs another
            self._rung_at = monotonic()
        if told is None or self._link.is_closed:
            return
        try:
            self._link.rows(NOTIFY, notices(self.channel, told), timeout_seconds=1.0)
        except (StemError, Error):
            return  # the change itself is committed; those who wait find it by their slow poll

    def close(self) -> None:
        self.flush()
        atexit.unregister(self.flush)
