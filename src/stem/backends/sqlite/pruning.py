"""Drop what retention has outlived, in bounded steps; now and then also without being asked."""

import time
from contextlib import suppress

from stem.backends.sqlite import log
from stem.backends.sqlite.space import Space
from stem.backends.sqlite.staging import prune_leftovers
from stem.backends.sqlite.statements import SQL
from stem.core.errors import StoreRefused, StoreUnavailable
from stem.core.watch import LOST_SECONDS

_STEP = 1000
_CALM_SECONDS = 60.0
_BUSY_SHARE = 10  # while there is more to drop, dropping takes one part in this many of the time


class Pruner:
    def __init__(self, space: Space) -> None:
        self._space = space
        self._next_at = time.monotonic() + _CALM_SECONDS

    def prune(self) -> int:
        return sum(self._dropped())

    def prune_now_and_then(self) -> None:
        """Called with every batch of writes: old rows go even where nobody runs a janitor."""
        began = time.monotonic()
        if began < self._next_at:
            return
        self._next_at = began + _CALM_SECONDS  # first, so that other threads do not join in
        with suppress(StoreUnavailable, StoreRefused):  # the caller's own write is stored: that is the answer
            if max(self._dropped(), default=0) >= _STEP:
                self._next_at = time.monotonic() + (time.monotonic() - began) * _BUSY_SHARE

    def _dropped(self) -> list[int]:
        """How much went of each kind; of one that came to its bound there may be more."""
        space = self._space
        leftovers = prune_leftovers(space)
        if not self._is_anything_old():
            return [leftovers]  # without the writers' lock
        with space.file.writing() as connection:
            now = space.now()
            horizon = now - space.retention.results_seconds
            bounded = (
                ("task_prune", horizon),
                ("unique_prune", now),
                ("mail_prune", now),
                ("bucket_prune", now),
                ("place_prune", now),
                ("rollup_prune", self._minute_horizon(now)),
            )
            small = (
                ("lock_prune", now),
                ("heartbeat_prune", now),
                ("revoke_prune", now),
                ("stage_job_prune", horizon),
                ("lost_prune", now - LOST_SECONDS),
            )
            return [
                leftovers,
                *(connection.execute(SQL[name], (space.ns, until, _STEP)).rowcount for name, until in bounded),
                *(connection.execute(SQL[name], (space.ns, until)).rowcount for name, until in small),
                log.prune(connection, space, now, _STEP),
            ]

    def _is_anything_old(self) -> bool:
        space, now = self._space, self._space.now()
        horizon = now - space.retention.results_seconds
        given = (space.ns, now, horizon, self._minute_horizon(now))
        with space.file.reading() as connection:
            (is_old,) = connection.execute(SQL["prune_any"], given).fetchone()
            return bool(is_old) or bool(log.outlived(connection, space, now, events=1))

    def _minute_horizon(self, now: float) -> int:
        return int((now - self._space.retention.events_seconds) * 1_000_000)
