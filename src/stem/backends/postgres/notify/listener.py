"""One LISTEN connection per kind of notification, which wakes the threads that wait for it. An optimisation over polling.

One of the waiting threads reads the connection for all of them, so a thread that is woken needs no other to tell it why. A
background thread opens the connection for the first that waits, and closes it when nobody has waited for a while.
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

from stem.backends.postgres.connection.connections import PostgresClient
from stem.backends.postgres.notify.listen_connection import ListenConnection, Received
from stem.backends.postgres.notify.notifier import KINDS, Notification, channel_for
from stem.backends.waiting import look_and_sleep
from stem.core.delivery import Delivery
from stem.core.errors import StemError

T = TypeVar("T")

_FIRST_POLL_SECONDS = 0.25
_UNSEEN_POLL_SECONDS = 0.02  # where no look came first: another's claim may have held what it then left
_SOON_SECONDS = 0.01
_LAST_POLL_SECONDS = 1.0
_LINGER_SECONDS = 5.0  # without a waiting thread: every NOTIFY wakes a backend that listens
_RETRY_SECONDS = 1.0
_BROKEN_SECONDS = 0.05  # before another is opened
_CLOSE_SECONDS = 1.0


class Waiter:
    """A thread that waits for notifications that concern it."""

    def __init__(self, concerns: Callable[[Notification], bool]) -> None:
        self.concerns = concerns
        self.is_asleep = False
        self.is_handed = False  # a task was handed over since it began to wait
        self._calls: SimpleQueue[None] = SimpleQueue()  # cheaper than an event; a second call causes a second look
        self.forget()

    def forget(self) -> None:
        self.is_woken = False
        self.is_notified = False  # of something that is there

    def call(self) -> None:
        """Wake the thread, or let it read the connection from now on."""
        self._calls.put(None)

    def await_call(self, seconds: float) -> None:
        with suppress(Empty):
            self._calls.get(timeout=seconds)


class NotificationListener:
    """With `on_delivery` set, tasks may also be handed over on the connection."""

    def __init__(self, client: PostgresClient, channel: str) -> None:
        self._client = client
        self._channel = channel
        # Gets a task and the seconds that it may have waited to be read; returns whether the task is accepted.
        self.on_delivery: Callable[[Delivery, float], bool] | None = None
        self._is_deaf = False  # a pooler in between delivers nothing on channels of single connections
        self._is_closed = False
        self._count = 0  # of notifications, and of moments at which some may have been missed
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._waiters: set[Waiter] = set()
        self._thread: threading.Thread | None = None
        self._receiving = threading.Lock()  # held by the thread that reads the connection
        self._connection: ListenConnection | None = None
        self._is_over = threading.Event()  # the connection is of no more use
        self._used_at = 0.0
        self._received_at = 0.0

    @property
    def position(self) -> int | None:
        """The same number later says that nothing was notified in between. None: unknown."""
        return None if self._connection is None or self._pid != os.getpid() else self._count

    @property
    def connection(self) -> ListenConnection | None:
        return self._connection if self._pid == os.getpid() else None

    def wait_until(
        self,
        concerns: Callable[[Notification], bool],
        look: Callable[[float], T],
        timeout_seconds: float,
        next_look: Callable[[], float] | None = None,
        *,
        on_notification: T | None = None,
        since: object = None,
        slowest_poll_seconds: float = _LAST_POLL_SECONDS,
    ) -> T | None:
        """Return the first true answer of `look`, or a false one when the time is up.

        `look` gets the seconds left. It is called at the start, after notifications that concern the caller, when `next_look`
        says so, and as a slow poll. With `on_notification`, a notification is answered with that value instead of a look. The
        first look is left out if nothing was notified since the position `since`.
        """
        end = monotonic() + timeout_seconds
        waiter = self._enter(concerns)
        try:
            self._receive(waiter, 0.0)  # what arrived before; the first look covers what it was about
            if waiter.is_handed and on_notification is not None:
                return on_notification
            waiter.forget()
            is_known = since is not None and since == self.position and timeout_seconds > 0
            poll = _UNSEEN_POLL_SECONDS if is_known else _FIRST_POLL_SECONDS

            def sleep(left: float) -> T | None:
                nonlocal poll
                due = next_look() if next_look is not None else poll
                is_woken = self._sleep(waiter, max(0.0, min(left, poll, due)))
                # What a notification tells of may not be visible yet: look again soon, then ever more seldom.
                poll = _SOON_SECONDS if is_woken else min(max(poll * 2, _FIRST_POLL_SECONDS), slowest_poll_seconds)
                answer = on_notification if waiter.is_notified else None
                waiter.forget()
                return answer

            return look_and_sleep(look, sleep, end, lambda: self._is_closed, is_known=is_known)
        finally:
            self._leave(waiter)

    def reconnect(self) -> None:
        """Replace the connection, which has missed something."""
        self._is_over.set()

    def wake(self) -> None:
        """Let all waiting threads look again, at once."""
        self._notify(Notification(lost=True))
        if (connection := self._connection) is not None:
            connection.wake()

    def close(self) -> None:
        self._is_closed = True
        self._is_over.set()
        self.wake()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSE_SECONDS)

    # Waiting threads

    def _enter(self, concerns: Callable[[Notification], bool]) -> Waiter:
        if self._pid != os.getpid():
            self._begin()
        waiter = Waiter(concerns)
        with self._lock:
            self._waiters.add(waiter)
            if self._thread is None and not self._is_closed:
                self._start()
        return waiter

    def _start(self) -> None:
        """Where no thread can be started, the slow polls remain."""
        thread = threading.Thread(target=self._listen, name="stem-postgres-listener", daemon=True)
        with suppress(RuntimeError):
            thread.start()
            self._thread = thread

    def _leave(self, waiter: Waiter) -> None:
        with self._lock:
            self._waiters.discard(waiter)
            self._used_at = monotonic()
        self._pass_on()  # it may have been called to read

    def _sleep(self, waiter: Waiter, seconds: float) -> bool:
        end = monotonic() + seconds
        waiter.is_asleep = True
        try:
            while not waiter.is_woken:
                left = end - monotonic()
                if left <= 0:
                    return False
                if not self._receive(waiter, left):
                    waiter.await_call(left)
            return True
        finally:
            waiter.is_asleep = False

    def _receive(self, waiter: Waiter, seconds: float) -> bool:
        """Read the connection for all, until something concerns this waiter or the time is up; what has arrived is read in any
        case. False: another thread reads, or there is no connection."""
        connection = self._connection
        if connection is None or not self._receiving.acquire(blocking=False):
            return False
        now = monotonic()
        end, late = now + seconds, now - self._received_at
        try:
            left = seconds
            while connection is self._connection:
                for received in connection.receive(max(0.0, left)):
                    self._dispatch(received, waiter, late)
                self._received_at, late = monotonic(), 0.0
                left = end - self._received_at
                if waiter.is_woken or left <= 0:
                    break
        except Error:  # the connection broke
            self._connection = None
            self._is_over.set()
            self._notify(Notification(lost=True), by=waiter)
        finally:
            self._receiving.release()
        self._pass_on(by=waiter)
        return True

    def _pass_on(self, by: Waiter | None = None) -> None:
        """Let another sleeping thread read. One that falls asleep later finds by itself that nobody does."""
        with self._lock:
            sleeping = (each for each in self._waiters if each.is_asleep and not each.is_woken and each is not by)
            following = next(sleeping, None)
        if following is not None:
            following.call()

    def _dispatch(self, received: Received, by: Waiter, late_seconds: float) -> None:
        if isinstance(received, Notification):
            self._notify(received, by)
        elif self.on_delivery is not None and self.on_delivery(received, late_seconds):
            self._notify_handed(by)

    def _notify_handed(self, by: Waiter) -> None:
        """One of them will take the task. It says nothing of what else there is, so the position stays."""
        with self._lock:
            for waiter in self._waiters:
                waiter.is_woken = waiter.is_notified = waiter.is_handed = True
                if waiter is not by:
                    waiter.call()

    def _notify(self, notification: Notification, by: Waiter | None = None) -> None:
        with self._lock:
            self._count += 1
            for waiter in self._waiters:
                if notification.lost or waiter.concerns(notification):
                    waiter.is_woken = True
                    waiter.is_notified |= not notification.lost  # else there may be nothing: it has to look
                    if waiter is not by:
                        waiter.call()

    # The background thread

    def _listen(self) -> None:
        pause = threading.Event()
        try:
            while self._is_wanted():
                try:
                    with self._client.listening(self._channel) as wire:
                        self._keep(self._opened(wire))
                except StemError:
                    pause.wait(_RETRY_SECONDS)
                except Error:
                    pause.wait(_BROKEN_SECONDS)
        finally:
            with self._lock:
                if self._thread is threading.current_thread():  # it failed; the next that waits tries again
                    self._thread = None

    def _opened(self, wire: PGconn) -> ListenConnection:
        if self.on_delivery is None or self._is_deaf:
            return ListenConnection(wire)
        return ListenConnection.for_handoff(wire, self._channel, self._client.timeout_seconds)

    def _keep(self, connection: ListenConnection) -> None:
        self._is_over.clear()
        self._used_at = self._received_at = monotonic()
        self._connection = connection
        self._notify(Notification(lost=True))  # what was notified before we listened was missed
        try:
            while not self._is_closed and not self._is_over.wait(_LINGER_SECONDS) and self._is_used():
                pass
        finally:
            self._connection = None
            self._is_deaf |= connection.is_deaf
            connection.wake()
            with self._receiving:  # nobody reads it any more
                connection.close()

    def _is_used(self) -> bool:
        return bool(self._waiters) or monotonic() - self._used_at < _LINGER_SECONDS

    def _is_wanted(self) -> bool:
        with self._lock:
            is_wanted = not self._is_closed and self._is_used()
            if not is_wanted:
                self._thread = None  # one that waits from now on needs another
            return is_wanted


@dataclass(frozen=True, slots=True)
class Listeners:
    """One for each kind of notification."""

    work: NotificationListener
    mail: NotificationListener
    ended: NotificationListener
    log: NotificationListener

    @classmethod
    def of(cls, client: PostgresClient, channel: str) -> Self:
        return cls(*[NotificationListener(client, channel_for(channel, kind)) for kind in KINDS])

    def close(self) -> None:
        for listener in (self.work, self.mail, self.ended, self.log):
            listener.close()
