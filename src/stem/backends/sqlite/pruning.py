"""Delete what is past its retention, in bounded steps; writers call it once a minute."""

import time
from contextlib import suppress

from stem.backends.sqlite.log import event_rows
from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.staging import prune_leftovers
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.tasks import retention
from stem.core.decisions.reclaim_watch import LOST_SECONDS
from stem.core.errors import StoreRefused, StoreUnavailable

_STEP = 1000
_CALM_SECONDS = 60.0
_BUSY_SHARE = 10  # while there is more to drop, dropping takes one part in this many of the time


class Pruner:
    def __init__(self, namespace: SqliteNamespace) -> None:
        self._namespace = namespace
        self._next_at = time.monotonic() + _CALM_SECONDS

    def prune(self) -> int:
        return sum(self._dropped())

    def prune_now_and_then(self) -> None:
        """Called with every batch of writes, so that old rows go even if nobody calls `prune`."""
        began = time.monotonic()
        if began < self._next_at:
            return
        self._next_at = began + _CALM_SECONDS  # first, so that other threads do not join in
        with suppress(StoreUnavailable, StoreRefused):  # the caller's own write is stored: that is the answer
            if max(self._dropped(), default=0) >= _STEP:
                self._next_at = time.monotonic() + (time.monotonic() - began) * _BUSY_SHARE

    def _dropped(self) -> list[int]:
        """How much went of each kind; of one that came to its bound there may be more."""
        namespace = self._namespace
        leftovers = prune_leftovers(namespace)
        if not self._is_anything_old():
            return [leftovers]  # without the writers' lock
        with namespace.database.writing() as connection:
            now = namespace.now()
            horizon = now - namespace.retention.results_seconds
            bounded = (
                ("unique_prune", now),
                ("mail_prune", now),
                ("bucket_prune", now),
                ("place_prune", now),
                ("rollup_prune", self._minute_horizon(now)),
                ("task_log_prune", now - namespace.retention.logs_seconds),
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
                retention.prune(connection, namespace, now, _STEP),
                *(connection.execute(SQL[name], (namespace.ns, until, _STEP)).rowcount for name, until in bounded),
                *(connection.execute(SQL[name], (namespace.ns, until)).rowcount for name, until in small),
                event_rows.prune(connection, namespace, now, _STEP),
            ]

    def _is_anything_old(self) -> bool:
        namespace, now = self._namespace, self._namespace.now()
        horizon = now - namespace.retention.results_seconds
        logs = now - namespace.retention.logs_seconds
        given = (namespace.ns, now, horizon, self._minute_horizon(now), logs)
        with namespace.database.reading() as connection:
            (is_old,) = connection.execute(SQL["prune_any"], given).fetchone()
            return bool(is_old) or bool(event_rows.outlived(connection, namespace, now, events=1))

    def _minute_horizon(self, now: float) -> int:
        return int((now - self._namespace.retention.events_seconds) * 1_000_000)
