"""Share between all contracts of a store: one namespace of an SQLite file."""

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass

from stem.backends.sqlite.connection.database import Database
from stem.backends.sqlite.connection.doorbell import Doorbell, DoorbellListener
from stem.backends.sqlite.statements import SQL
from stem.core.errors import StoreRefused, StoreUnavailable
from stem.core.settings.app import Retention
from stem.runtime.clock import Clock

# Row numbers hold the namespace above these bits (task_insert.sql counts on it): one B-tree then keeps both the order
# and the namespaces apart.
_NUMBER_BITS = 40

_POLL_SECONDS = 0.05
_FRESH_SECONDS = 0.5
_LOOK_SECONDS = 1.0
_NEVER_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class SqliteNamespace:
    database: Database
    ns: int
    clock: Clock
    doorbell: Doorbell
    retention: Retention

    @property
    def first(self) -> int:
        """No row of this namespace has a lower number."""
        return self.ns << _NUMBER_BITS

    @property
    def last(self) -> int:
        return self.first + (1 << _NUMBER_BITS) - 1

    def now(self) -> float:
        """Whole microseconds, as the records tell them, so that a moment read from one selects it again."""
        return moment(self.clock())

    def take_numbers(self, connection: sqlite3.Connection | sqlite3.Cursor, what: str, count: int = 1) -> int:
        """The first of `count` fresh numbers of a series."""
        ((last,),) = connection.execute(SQL["number_take"], (self.ns, what, count)).fetchall()
        if last >> _NUMBER_BITS:
            raise StoreRefused(f"{self.database.path} has no numbers left for this namespace; use another namespace.")
        return int(last) - count + 1

    def last_number(self, connection: sqlite3.Connection, what: str) -> int:
        row = connection.execute(SQL["number_last"], (self.ns, what)).fetchone()
        return row[0] if row else 0

    def ring(self, topics: set[str]) -> None:
        self.doorbell.ring(self._topic(topic) for topic in topics)

    def sleep_until(
        self,
        is_true: Callable[[], bool],
        timeout_seconds: float,
        topics: set[str],
        until_due: Callable[[], float] = lambda: _NEVER_SECONDS,
        *,
        is_always_rung: bool = False,
    ) -> bool:
        """Wait for a condition that some change makes true: rung for at once, else seen in the file soon after.

        The file is watched too because a push in a caller's own transaction rings no doorbell; seldom, where whoever makes
        the change always rings.
        """
        poll_seconds = _LOOK_SECONDS if is_always_rung else _POLL_SECONDS
        end = time.monotonic() + timeout_seconds
        if is_true():
            return True
        if timeout_seconds <= 0:
            return False
        heard = frozenset(self._topic(topic) for topic in topics)
        try:
            with self.doorbell.listening(heard) as listener:
                while not self.database.is_closed:
                    _, traces = self.database.traces()  # before the look, so that no change falls between the two
                    if is_true():
                        return True
                    look_at = time.monotonic() + min(_LOOK_SECONDS, max(0.0, until_due()))
                    if not self._doze(listener, heard, traces, min(look_at, end), poll_seconds):
                        return False
                    if time.monotonic() >= end:
                        return is_true()
        except StoreUnavailable:
            if not self.database.is_closed:
                raise
        return False

    def _doze(
        self,
        listener: DoorbellListener,
        heard: frozenset[str],
        traces: tuple[object, ...],
        end: float,
        poll_seconds: float,
    ) -> bool:
        """Sleep until a ring, a change of the file, or the time to look; False if the store is closed.

        Nothing is open meanwhile, so that a sleeper holds up no fork.
        """
        while (left := end - time.monotonic()) > 0 and not self.database.is_closed:
            if listener.sleep(min(poll_seconds, left), heard):
                break
            changed_at, now_traces = self.database.traces()
            # A write shows before its commit does, by as long as the disk takes: while it is fresh, look again.
            if now_traces != traces or abs(time.time() - changed_at) < _FRESH_SECONDS:
                break
        return not self.database.is_closed

    def _topic(self, topic: str) -> str:
        return f"{self.ns}:{topic}"


def moment(at: float) -> float:
    """Round to whole microseconds; `round` would take four times as long."""
    return int(at * 1e6 + 0.5) / 1e6
