"""NOTIFY waiting processes after a commit, at most once every few milliseconds per process.

Transactions that notify commit one at a time, so one that waits for the disk meanwhile would hold up all others. If the process
dies between commit and NOTIFY, the slow poll of the waiting ones finds the change. A single push is not flushed as it commits
and notifies in its own transaction; see sql/functions/push_one.sql.
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

from stem.backends.postgres.codec.text_columns import array
from stem.backends.postgres.connection.connections import PostgresClient
from stem.backends.postgres.connection.pq_exec import Statement
from stem.core.errors import StemError

_PQ_NOTIFY = b"SELECT pg_notify(channel, payload) FROM unnest($1::text[], $2::text[]) AS t (channel, payload)"
NOTIFY = "SELECT pg_notify(channel, payload) FROM unnest(%s::text[], %s::text[]) AS t (channel, payload)"
KINDS = ("work", "mail", "ended", "log")  # each has a channel of its own: a process is woken by what it waits for only
_GAP_SECONDS = 0.004
_MOST_IDS = 800  # in one notification
_MOST_PARTS = 20
_MOST_BYTES = 7900  # Postgres takes less than 8000


class Notification(msgspec.Struct, omit_defaults=True):
    """What changed: queues with something to claim, mailboxes, ended tasks (by `id_hash`), whether events were logged, and
    whether tasks went back to queues whose names are not at hand. `lost` says that there is more than fits, or that some may
    have been missed, so every receiver should look."""

    queues: set[str] = set()
    boxes: set[str] = set()
    ended: set[int] = set()
    logged: bool = False
    any_queue: bool = False
    lost: bool = False

    def add(self, other: "Notification") -> None:
        self.queues |= other.queues
        self.boxes |= other.boxes
        self.ended |= other.ended
        self.logged |= other.logged
        self.any_queue |= other.any_queue
        self.lost |= other.lost


def notification(
    queues: Iterable[str] = (),
    boxes: Iterable[str] = (),
    ended: Iterable[str] = (),
    *,
    logged: bool = True,
    any_queue: bool = False,
) -> Notification:
    return Notification(set(queues), set(boxes), {id_hash(task_id) for task_id in ended}, logged, any_queue)


def id_hash(task_id: str) -> int:
    """A short stand-in for an id: notifications are small, and a wake-up for nothing does no harm."""
    return crc32(task_id.encode(errors="replace")) & 0xFFFFFF


def channel_of(schema: str, namespace: str) -> str:
    return "stem_" + hashlib.sha256(f"{schema}/{namespace}".encode()).hexdigest()[:24]


def channel_for(channel: str, kind: str) -> str:
    return f"{channel}_{kind}"


def payloads(channel: str, change: Notification) -> tuple[list[str], list[str]]:
    """Channels, and what is sent on each. Of a kind of which there is more than fits, only that something was lost."""
    channels, texts = [], []
    for kind, parts in zip(KINDS, _parts(change), strict=True):
        encoded = [msgspec.json.encode(part) for part in parts]
        if change.lost or len(encoded) > _MOST_PARTS or any(len(each) > _MOST_BYTES for each in encoded):
            encoded = [msgspec.json.encode(Notification(lost=True))]
        channels += [channel_for(channel, kind)] * len(encoded)
        texts += [each.decode() for each in encoded]
    return channels, texts


def _parts(change: Notification) -> tuple[list[Notification], ...]:
    ended = list(change.ended)
    return (
        [Notification(queues=change.queues, any_queue=change.any_queue)] if change.queues or change.any_queue else [],
        [Notification(boxes=change.boxes)] if change.boxes else [],
        [Notification(ended=set(ended[first : first + _MOST_IDS])) for first in range(0, len(ended), _MOST_IDS)],
        [Notification(logged=True)] if change.logged else [],
    )


PushNotice = tuple[str, str, str]  # the channel of work, what is sent there, the channel of the log


@lru_cache(maxsize=256)
def _push_notice(channel: str, queue: str) -> PushNotice:
    (work, log), (payload, _) = payloads(channel, notification([queue]))
    return work, payload, log


class Notifier:
    def __init__(self, client: PostgresClient, channel: str) -> None:
        self._client = client
        self.channel = channel
        self._lock = threading.Lock()
        self._pending: Notification | None = None
        self._sent_at = 0.0
        self._timer: threading.Timer | None = None
        atexit.register(self.flush)

    def notify(self, fresh: Notification) -> None:
        """Send now, or within a few milliseconds if something was sent just before."""
        with self._lock:
            if self._pending is None:
                self._pending = fresh
            else:
                self._pending.add(fresh)
            wait = self._sent_at + _GAP_SECONDS - monotonic()
            if wait > 0:
                if self._timer is None or not self._timer.is_alive():  # in a forked child its thread is gone
                    self._timer = threading.Timer(wait, self.flush)
                    self._timer.daemon = True
                    self._timer.start()
                return
        self.flush()

    def push_notice(self, queue: str) -> PushNotice | None:
        """What a push sends in its own transaction. None: something was sent just before or waits to be, so that the caller
        should `notify`."""
        now = monotonic()
        with self._lock:
            if self._pending is not None or now < self._sent_at + _GAP_SECONDS:
                return None
            self._sent_at = now
        return _push_notice(self.channel, queue)

    def as_statement(self, fresh: Notification) -> Statement | None:
        """A statement that sends this and all that waits to be sent, for the round trip of the change itself. None: something was
        sent just before, so that the caller should `notify`. Should it fail, the slow polls find the change."""
        now = monotonic()
        with self._lock:
            if now < self._sent_at + _GAP_SECONDS:
                return None
            waiting, self._pending = self._pending, None
            self._sent_at = now
        if waiting is not None:
            fresh.add(waiting)
        channels, texts = payloads(self.channel, fresh)
        return Statement(_PQ_NOTIFY, (array(channels), array(texts)), is_vital=False)

    def flush(self) -> None:
        with self._lock:
            change, self._pending = self._pending, None
            self._timer = None  # what is notified while this is being sent needs another
            self._sent_at = monotonic()
        if change is None or self._client.is_closed:
            return
        try:
            self._client.rows(NOTIFY, payloads(self.channel, change), timeout_seconds=1.0)
        except (StemError, Error):
            return  # the change itself is committed; waiting processes find it by their slow poll

    def close(self) -> None:
        self.flush()
        atexit.unregister(self.flush)
