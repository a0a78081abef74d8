"""One LISTENing connection a store, which wakes all of its waiters; never required, only quick."""

import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar

import msgspec
from psycopg.errors import Error
from psycopg.pq.abc import PGconn

from stem.backends.postgres.bell import News
from stem.backends.postgres.speaking import Speaking
from stem.core.errors import StemError

T = TypeVar("T")

_FIRST_POLL_SECONDS = 0.25
_SOON_SECONDS = 0.01
_LAST_POLL_SECONDS = 1.0
_BREATH_SECONDS = 0.5  # how soon a listener hears that its store was closed
_RETRY_SECONDS = 1.0
_SHORTEST_LOOK_SECONDS = 1.0  # a wait without time still asks once


class Waiter:
    """Someone asleep until news that concern them come in."""

    def __init__(self, concerns: Callable[[News], bool]) -> None:
        self.concerns = concerns
        self.woken = threading.Event()
        self.is_told = False  # of something that is there


class Listener:
    def __init__(self, link: Speaking, channel: str) -> None:
        self._link = link
        self._channel = channel
        self._lock = threading.Lock()
        self._waiters: set[Waiter] = set()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def until(
        self,
        concerns: Callable[[News], bool],
        look: Callable[[float], T | None],
        timeout_seconds: float,
        next_look: Callable[[], float] | None = None,
        *,
        on_news: T | None = None,
        slowest_poll_seconds: float = _LAST_POLL_SECONDS,
    ) -> T | None:
        """The first answer of `look`, which is asked at the start, after news that concern it, and every now and then;
        None when the time is up. `look` gets the seconds left; `next_look` says when it wants to be asked again. Where
        `on_news` is given, news are answer enough."""
        end = monotonic() + timeout_seconds
        poll = _FIRST_POLL_SECONDS
        with self._waiting(concerns) as waiter:
            while True:
                waiter.woken.clear()
                waiter.is_told = False
                left = end - monotonic()
                if (found := look(max(left, _SHORTEST_LOOK_SECONDS))) is not None:
                    return found
                left = end - monotonic()
                if left <= 0 or self._is_closed:
                    return None
                due = next_look() if next_look is not None else poll
                is_woken = waiter.woken.wait(max(0.0, min(left, poll, due)))
                if waiter.is_told and on_news is not None:
                    return on_news
                # News came, but what it tells of may not be visible yet: look again soon, then ever more seldom.
                poll = _SOON_SECONDS if is_woken else min(poll * 2, slowest_poll_seconds)

    def close(self) -> None:
        self._is_closed = True
        self._wake(News(lost=True))
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(2 * _BREATH_SECONDS)

    @contextmanager
    def _waiting(self, concerns: Callable[[News], bool]) -> Iterator[Waiter]:
        waiter = Waiter(concerns)
        with self._lock:
            self._waiters.add(waiter)
            if not self._is_closed and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._listen, name="stem-postgres-listener", daemon=True)
                self._thread.start()
        try:
            yield waiter
        finally:
            with self._lock:
                self._waiters.discard(waiter)

    def _listen(self) -> None:
        pause = threading.Event()
        while not self._is_closed:
            try:
                with self._link.listening(self._channel) as pgconn:
                    self._hear(pgconn)
            except StemError:
                pause.wait(_RETRY_SECONDS)
            except Error:
                pause.wait(0.05)  # the connection broke; open another

    def _hear(self, pgconn: PGconn) -> None:
        self._wake(News(lost=True))  # what was told before we listened is lost on us
        poller = select.poll()
        poller.register(pgconn.socket, select.POLLIN)
        while not self._is_closed:
            if poller.poll(_BREATH_SECONDS * 1000):
                pgconn.consume_input()
            while (told := pgconn.notifies()) is not None:
                self._wake(_read(told.extra))

    def _wake(self, told: News) -> None:
        with self._lock:
            for waiter in self._waiters:
                if told.lost or waiter.concerns(told):
                    waiter.is_told |= not told.lost  # else there may be nothing: it has to look
                    waiter.woken.set()


def _read(text: bytes) -> News:
    try:
        return msgspec.json.decode(text, type=News)
    except msgspec.MsgspecError:
        return News(lost=True)  # a newer Stem's words
