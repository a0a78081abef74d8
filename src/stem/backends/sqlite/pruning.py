"""Drop what retention has outlived, in bounded steps; now and then also without being asked."""

import sqlite3
import time

from stem.backends.sqlite.space import Space
from stem.backends.sqlite.statements import SQL

_STEP = 1000
_CALM_SECONDS = 60.0
_BUSY_SHARE = 10  # while there is more to drop, dropping takes one part in this many of the time


class Pruner:
    def __init__(self, space: Space) -> None:
        self._space = space
        self._next_at = time.monotonic() + _CALM_SECONDS

    def prune(self) -> int:
        space = self._space
        if not self._is_anything_old():
            return 0  # without the writers' lock
        with space.file.writing() as connection:
            now = space.now()
            horizon = now - space.retention.results_seconds
            bounded = (("task_prune", horizon), ("unique_prune", now), ("mail_prune", now))
            small = (("lock_prune", now), ("heartbeat_prune", now), ("revoke_prune", now))
            return (
                sum(connection.execute(SQL[name], (space.ns, until, _STEP)).rowcount for name, until in bounded)
                + sum(connection.execute(SQL[name], (space.ns, until)).rowcount for name, until in small)
                + self._prune_events(connection, now)
            )

    def prune_now_and_then(self) -> None:
        """Called with every batch of writes: old rows go even where nobody runs a janitor."""
        began = time.monotonic()
        if began < self._next_at:
            return
        self._next_at = began + _CALM_SECONDS  # first, so that other threads do not join in
        if self.prune() >= _STEP:
            self._next_at = time.monotonic() + (time.monotonic() - began) * _BUSY_SHARE

    def _prune_events(self, connection: sqlite3.Connection, now: float) -> int:
        last = self._last_old_event(connection, now)
        return connection.execute(SQL["event_prune"], (self._space.first, last)).rowcount if last else 0

    def _last_old_event(self, connection: sqlite3.Connection, now: float) -> int | None:
        space = self._space
        (head,) = connection.execute(SQL["event_last"], (space.first, space.last)).fetchone()
        if head is None:
            return None
        floor = head - space.retention.events_count  # offsets have no gaps
        horizon = now - space.retention.events_seconds
        (last,) = connection.execute(SQL["event_old"], (space.first, space.last, horizon, floor, _STEP)).fetchone()
        return last if last is not None and last >= space.first else None

    def _is_anything_old(self) -> bool:
        space, now = self._space, self._space.now()
        with space.file.reading() as connection:
            last = self._last_old_event(connection, now)
            horizon = now - space.retention.results_seconds
            (is_old,) = connection.execute(SQL["prune_any"], (space.ns, now, horizon, space.first, last)).fetchone()
        return bool(is_old)
