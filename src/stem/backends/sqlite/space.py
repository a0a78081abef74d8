"""What every seam of one store stands on: the file, the namespace in it, the clock and the bell."""

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass

from stem.backends.sqlite.bell import Bell
from stem.backends.sqlite.file import File
from stem.backends.sqlite.statements import SQL
from stem.core.config import Retention
from stem.core.errors import StoreUnavailable
from stem.runtime.clock import Clock

# Row numbers hold the namespace above these bits: one B-tree then keeps both the order and the namespaces apart.
_NUMBER_BITS = 40

_POLL_SECONDS = 0.05
_NEVER_SECONDS = 3600.0
_POLL_SHARE = 100  # a look may take one part in this many of the time


@dataclass(frozen=True, slots=True)
class Space:
    file: File
    ns: int
    clock: Clock
    bell: Bell
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
        return round(self.clock(), 6)

    def take_numbers(self, connection: sqlite3.Connection | sqlite3.Cursor, what: str, count: int = 1) -> int:
        """The first of `count` fresh numbers of a series."""
        ((last,),) = connection.execute(SQL["number_take"], (self.ns, what, count)).fetchall()
        return int(last) - count + 1

    def last_number(self, connection: sqlite3.Connection, what: str) -> int:
        row = connection.execute(SQL["number_last"], (self.ns, what)).fetchone()
        return row[0] if row else 0

    def ring(self, topics: set[str]) -> None:
        self.bell.ring(self._topic(topic) for topic in topics)

    def sleep_until(
        self,
        is_true: Callable[[], bool],
        timeout_seconds: float,
        topics: set[str],
        until_due: Callable[[], float] = lambda: _NEVER_SECONDS,
    ) -> bool:
        """Wait for a condition that some change makes true: rung for at once, else seen at the next look."""
        end = time.monotonic() + timeout_seconds
        if is_true():
            return True
        if timeout_seconds <= 0:
            return False
        heard = frozenset(self._topic(topic) for topic in topics)
        with self.bell.listening() as listener:
            try:
                while not self.file.is_closed:
                    began = time.monotonic()
                    if is_true():
                        return True
                    wake_in = until_due()
                    now = time.monotonic()
                    if now >= end:
                        break
                    pause = max(_POLL_SECONDS, (now - began) * _POLL_SHARE)
                    listener.sleep(min(pause, max(0.0, wake_in), end - now), heard)
            except StoreUnavailable:
                if not self.file.is_closed:
                    raise
            return False

    def _topic(self, topic: str) -> str:
        return f"{self.ns}:{topic}"
