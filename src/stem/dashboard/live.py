"""One reader of the event log for all open pages: tells them that something has changed, or that the store is away."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Literal

from stem.contracts.store import Store
from stem.core.errors import StemError
from stem.core.event import Event

log = logging.getLogger("stem.dashboard")

READ_AT_ONCE = 500
WAIT_SECONDS = 5.0
GATHER_SECONDS = 0.5  # of events for one message
RETRY_SECONDS = 1.0
ALIVE_SECONDS = 15.0
MOST_PAGES = 100  # that follow at a time
MOST_PAGES_EACH = 40  # of one user, so that nobody takes all of them


@dataclass(frozen=True, slots=True)
class News:
    """`events` are those since the last; `problem` says why the store cannot be read."""

    kind: Literal["ready", "changed", "lost", "back", "alive", "closed"]
    events: tuple[Event, ...] = ()
    problem: str = ""


@dataclass(eq=False, slots=True)
class _Follower:
    loop: asyncio.AbstractEventLoop
    queue: "asyncio.Queue[News]" = field(default_factory=lambda: asyncio.Queue(20))

    def tell(self, news: News) -> None:
        with suppress(RuntimeError):  # its loop is closed
            self.loop.call_soon_threadsafe(self._put, news)

    def _put(self, news: News) -> None:
        with suppress(asyncio.QueueFull):  # a slow reader misses some, and reads the page anew anyway
            self.queue.put_nowait(news)


class LiveFeed:
    """Reads while somebody follows, in one thread, however many pages are open."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._followers: set[_Follower] = set()
        self._places: Counter[str] = Counter()  # taken, by user
        self._lock = Lock()
        self._thread: Thread | None = None
        self._problem = ""
        self._is_closed = False
        self._is_reading = False  # from a place in the log on, so that what happens now is told

    def close(self) -> None:
        """End all streams: the server waits for them before it stops. Takes no lock, for it is called by a signal handler,
        which may have interrupted somebody who holds it."""
        self._is_closed = True
        for follower in list(self._followers):
            follower.tell(News("closed"))

    def take_place(self, who: str) -> bool:
        """Take one of the places to follow from; False: all are taken, or all that one user may have. Before the stream
        begins: of many requests at once, each has to see the others."""
        with self._lock:
            if self._places.total() >= MOST_PAGES or self._places[who] >= MOST_PAGES_EACH:
                return False
            self._places[who] += 1
            return True

    def give_back_place(self, who: str) -> None:
        with self._lock:
            self._places[who] -= 1
            self._places += Counter()  # forgets who has none

    async def follow(self) -> AsyncGenerator[News, None]:
        follower = _Follower(asyncio.get_running_loop())
        self._add(follower)
        try:
            while not (self._is_reading or self._problem or self._is_closed):
                await asyncio.sleep(0.01)
            yield News("lost", problem=self._problem) if self._problem else News("ready")
            while not self._is_closed:
                try:
                    news = await asyncio.wait_for(follower.queue.get(), ALIVE_SECONDS)
                except TimeoutError:
                    news = News("alive")
                if self._is_closed:
                    return
                yield news
        finally:
            with self._lock:
                self._followers.discard(follower)

    def _add(self, follower: _Follower) -> None:
        with self._lock:
            self._followers.add(follower)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="dashboard-live", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        after: str | None = None
        is_started = False
        while self._goes_on():
            try:
                store = self._store()
                if not is_started:
                    after, is_started = store.events.head(), True
                self._is_reading = True
                if self._problem:
                    self._problem = ""
                    self._tell(News("back"))
                if store.events.wait(after, timeout_seconds=WAIT_SECONDS):
                    events = store.events.read(after, limit=READ_AT_ONCE)
                    if events:
                        after = events[-1].offset
                        self._tell(News("changed", tuple(events)))
                    time.sleep(GATHER_SECONDS)
            except StemError as error:
                if not self._problem:
                    self._problem = str(error)
                    self._tell(News("lost", problem=self._problem))
                time.sleep(RETRY_SECONDS)
            except Exception:  # the feed is for all pages, and one unforeseen event must not end it
                log.exception("dashboard.feed_failed")
                is_started = False
                time.sleep(RETRY_SECONDS)

    def _goes_on(self) -> bool:
        """Ends the thread when nobody follows. Decided under the lock: a follower that comes now starts another."""
        with self._lock:
            if not self._followers:
                self._thread, self._is_reading = None, False
            return bool(self._followers) and not self._is_closed

    def _tell(self, news: News) -> None:
        with self._lock:
            followers = list(self._followers)
        for follower in followers:
            follower.tell(news)
