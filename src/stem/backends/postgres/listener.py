"""One LISTENing connection for news of a kind, which wakes all who wait for some; never required, only quick.

One of those who wait hears for all, in his own thread: whoever is woken by the news has them already. The connection is
opened by the first who waits, and closed when nobody has for a while.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Self, TypeVar

from psycopg.errors import Error
from psycopg.pq.abc import PGconn

from stem.backends.postgres.bell import KINDS, News, channel_for
from stem.backends.postgres.ear import Ear, Heard
from stem.backends.postgres.speaking import Speaking
from stem.core.delivery import Delivery
from stem.core.errors import StemError

T = TypeVar("T")

_FIRST_POLL_SECONDS = 0.25
_UNSEEN_POLL_SECONDS = 0.02  # where no look came first: another's claim may have held what it then left
_SOON_SECONDS = 0.01
_LAST_POLL_SECONDS = 1.0
_LINGER_SECONDS = 5.0  # with nobody to hear: a backend that listens is woken by all that anybody tells
_RETRY_SECONDS = 1.0
_BROKEN_SECONDS = 0.05  # before another is opened
_SHORTEST_LOOK_SECONDS = 1.0  # a wait without time still asks once
_CLOSE_SECONDS = 1.0


class Waiter:
    """Someone asleep until news that concern them come in."""

    def __init__(self, concerns: Callable[[News], bool]) -> None:
        self.concerns = concerns
        self.is_asleep = False
        self.is_handed = False  # something was handed over since he came
        self._calls: SimpleQueue[None] = SimpleQueue()  # cheaper than an event; who is called twice looks twice
        self.forget()

    def forget(self) -> None:
        self.is_woken = False
        self.is_told = False  # of something that is there

    def call(self) -> None:
        """He is woken, or it is his turn to hear."""
        self._calls.put(None)

    def await_call(self, seconds: float) -> None:
        with suppress(Empty):
            self._calls.get(timeout=seconds)


class Listener:
    """Where there is somebody to `receive` them, tasks may be handed over, too: to the seat of the ear."""

    def __init__(self, link: Speaking, channel: str) -> None:
        self._link = link
        self._channel = channel
        # Gets a task, and how many seconds it may have lain here; False: he does not take it.
        self.receive: Callable[[Delivery, float], bool] | None = None
        self._is_deaf = False  # through here nobody hears what is said to him alone
        self._is_closed = False
        self._count = 0  # of news, and of moments at which some may have been missed
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._waiters: set[Waiter] = set()
        self._thread: threading.Thread | None = None
        self._hearing = threading.Lock()  # whoever has it uses the ear
        self._ear: Ear | None = None
        self._is_over = threading.Event()  # the ear is of no more use
        self._used_at = 0.0
        self._heard_at = 0.0

    @property
    def mark(self) -> int | None:
        """The same number later on says that nothing was told in between. None: who knows."""
        return None if self._ear is None or self._pid != os.getpid() else self._count

    @property
    def ear(self) -> Ear | None:
        return self._ear if self._pid == os.getpid() else None

    def until(
        self,
        concerns: Callable[[News], bool],
        look: Callable[[float], T | None],
        timeout_seconds: float,
        next_look: Callable[[], float] | None = None,
        *,
        on_news: T | None = None,
        since: int | None = None,
        slowest_poll_seconds: float = _LAST_POLL_SECONDS,
    ) -> T | None:
        """The first answer of `look`, which is asked at the start, after news that concern it, and every now and then;
        None when the time is up. `look` gets the seconds left; `next_look` says when it wants to be asked again. Where
        `on_news` is given, news are answer enough. The first look is left out if nothing was told since that mark."""
        end = monotonic() + timeout_seconds
        waiter = self._enter(concerns)
        try:
            self._hear(waiter, 0.0)  # what was told before he came; the first look shows what it was about
            if waiter.is_handed and on_news is not None:
                return on_news
            waiter.forget()
            is_known = since is not None and since == self.mark and timeout_seconds > 0
            poll = _UNSEEN_POLL_SECONDS if is_known else _FIRST_POLL_SECONDS
            while True:
                left = end - monotonic()
                if not is_known and (found := look(max(left, _SHORTEST_LOOK_SECONDS))) is not None:
                    return found
                is_known = False
                left = end - monotonic()
                if left <= 0 or self._is_closed:
                    return None
                due = next_look() if next_look is not None else poll
                is_woken = self._sleep(waiter, max(0.0, min(left, poll, due)))
                if waiter.is_told and on_news is not None:
                    return on_news
                waiter.forget()
                # News came, but what it tells of may not be visible yet: look again soon, then ever more seldom.
                poll = _SOON_SECONDS if is_woken else min(max(poll * 2, _FIRST_POLL_SECONDS), slowest_poll_seconds)
        finally:
            self._leave(waiter)

    def renew(self) -> None:
        """The ear has missed something: take another."""
        self._is_over.set()

    def rouse(self) -> None:
        """All who wait look again, at once."""
        self._wake(News(lost=True))
        if (ear := self._ear) is not None:
            ear.rouse()

    def close(self) -> None:
        self._is_closed = True
        self._is_over.set()
        self.rouse()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSE_SECONDS)

    # Those who wait

    def _enter(self, concerns: Callable[[News], bool]) -> Waiter:
        if self._pid != os.getpid():
            self._begin()
        waiter = Waiter(concerns)
        with self._lock:
            self._waiters.add(waiter)
            if self._thread is None and not self._is_closed:
                self._start()
        return waiter

    def _start(self) -> None:
        """A machine that has no thread left for it has the slow polls."""
        thread = threading.Thread(target=self._listen, name="stem-postgres-listener", daemon=True)
        with suppress(RuntimeError):
            thread.start()
            self._thread = thread

    def _leave(self, waiter: Waiter) -> None:
        with self._lock:
            self._waiters.discard(waiter)
            self._used_at = monotonic()
        self._pass_on()  # it may have been his turn

    def _sleep(self, waiter: Waiter, seconds: float) -> bool:
        end = monotonic() + seconds
        waiter.is_asleep = True
        try:
            while not waiter.is_woken:
                left = end - monotonic()
                if left <= 0:
                    return False
                if not self._hear(waiter, left):
                    waiter.await_call(left)
            return True
        finally:
            waiter.is_asleep = False

    def _hear(self, waiter: Waiter, seconds: float) -> bool:
        """For all, until something concerns him or the time is up; what has come is heard in any case. False: another does,
        or nobody can."""
        ear = self._ear
        if ear is None or not self._hearing.acquire(blocking=False):
            return False
        now = monotonic()
        end, late = now + seconds, now - self._heard_at
        try:
            left = seconds
            while ear is self._ear:
                for heard in ear.hear(max(0.0, left)):
                    self._heed(heard, waiter, late)
                self._heard_at, late = monotonic(), 0.0
                left = end - self._heard_at
                if waiter.is_woken or left <= 0:
                    break
        except Error:
            self._give_up()  # the connection broke
            self._wake(News(lost=True), by=waiter)
        finally:
            self._hearing.release()
        self._pass_on(by=waiter)
        return True

    def _pass_on(self, by: Waiter | None = None) -> None:
        """To another who sleeps; he hears from now on. Whoever falls asleep later finds that nobody does."""
        with self._lock:
            sleeping = (each for each in self._waiters if each.is_asleep and not each.is_woken and each is not by)
            following = next(sleeping, None)
        if following is not None:
            following.call()

    def _heed(self, heard: Heard, by: Waiter, late_seconds: float) -> None:
        if isinstance(heard, News):
            self._wake(heard, by)
        elif self.receive is not None and self.receive(heard, late_seconds):
            self._wake_all(by)

    def _wake_all(self, by: Waiter) -> None:
        """One of them is to have it. It says nothing of what else there is, so it does not count as news."""
        with self._lock:
            for waiter in self._waiters:
                waiter.is_woken = waiter.is_told = waiter.is_handed = True
                if waiter is not by:
                    waiter.call()

    def _wake(self, told: News, by: Waiter | None = None) -> None:
        with self._lock:
            self._count += 1
            for waiter in self._waiters:
                if told.lost or waiter.concerns(told):
                    waiter.is_woken = True
                    waiter.is_told |= not told.lost  # else there may be nothing: it has to look
                    if waiter is not by:
                        waiter.call()

    def _give_up(self) -> None:
        """Whoever hears says so."""
        self._ear = None
        self._is_over.set()

    # The thread

    def _listen(self) -> None:
        pause = threading.Event()
        try:
            while self._is_wanted():
                try:
                    with self._link.listening(self._channel) as wire:
                        self._keep(self._opened(wire))
                except StemError:
                    pause.wait(_RETRY_SECONDS)
                except Error:
                    pause.wait(_BROKEN_SECONDS)
        finally:
            with self._lock:
                if self._thread is threading.current_thread():  # it failed; the next who waits tries again
                    self._thread = None

    def _opened(self, wire: PGconn) -> Ear:
        if self.receive is None or self._is_deaf:
            return Ear(wire)
        return Ear.seated(wire, self._channel, self._link.timeout_seconds)

    def _keep(self, ear: Ear) -> None:
        self._is_over.clear()
        self._used_at = self._heard_at = monotonic()
        self._ear = ear
        self._wake(News(lost=True))  # what was told before we listened is lost on us
        try:
            while not self._is_closed and not self._is_over.wait(_LINGER_SECONDS) and self._is_used():
                pass
        finally:
            self._ear = None
            self._is_deaf |= ear.is_deaf
            ear.rouse()
            with self._hearing:  # nobody uses it any more
                ear.close()

    def _is_used(self) -> bool:
        return bool(self._waiters) or monotonic() - self._used_at < _LINGER_SECONDS

    def _is_wanted(self) -> bool:
        with self._lock:
            is_wanted = not self._is_closed and self._is_used()
            if not is_wanted:
                self._thread = None  # whoever comes now needs another
            return is_wanted


@dataclass(frozen=True, slots=True)
class Listeners:
    """One for each kind of news."""

    work: Listener
    mail: Listener
    ended: Listener
    log: Listener

    @classmethod
    def of(cls, link: Speaking, channel: str) -> Self:
        return cls(*[Listener(link, channel_for(channel, kind)) for kind in KINDS])

    def close(self) -> None:
        for listener in (self.work, self.mail, self.ended, self.log):
            listener.close()
