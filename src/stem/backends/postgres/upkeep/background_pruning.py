"""Prune and vacuum in the background: workers that settle tasks do so in a thread, one worker at a time."""

import threading
from contextlib import suppress
from time import monotonic
from typing import Any

import psycopg
from psycopg import sql

from stem.backends.postgres.connection.connections import PostgresClient
from stem.backends.postgres.connection.deadline_connection import DeadlineConnection, Row
from stem.backends.postgres.statements import call
from stem.contracts.staging import LEFTOVER_SECONDS
from stem.core.errors import StemError
from stem.core.settings.app import Retention

_PRUNE_EVERY_SECONDS = 60.0
_PRUNE_FOR_SECONDS = 30.0
_PRUNE_STEP = 5000  # entries of a kind in one transaction
# Entries of claimed tasks lie dead at the front of the queue's index until a vacuum, and every claim steps over them.
# Autovacuum comes by once a minute at best; a busy queue needs it every few seconds.
_VACUUM_EVERY_ENDINGS = 20_000
_VACUUM_EVERY_SECONDS = 2.0
_VACUUM_SECONDS = 600.0
_VACUUM_PAUSE = (
    10  # times its own length: one that an open old snapshot keeps from clearing must not go on all the time
)


class BackgroundPruner:
    def __init__(self, client: PostgresClient, namespace: str, retention: Retention) -> None:
        self._client = client
        self._namespace = namespace
        self._retention = retention
        self._endings = 0
        self._vacuumed_at = self._pruned_at = monotonic()
        self._vacuum_seconds = 0.0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._vacuuming: DeadlineConnection | None = None
        self._is_closing = False

    def note(self, endings: int) -> None:
        """So many tasks have just ended; see whether something is to be done."""
        self._endings += endings
        now = monotonic()
        rest = max(_VACUUM_EVERY_SECONDS, _VACUUM_PAUSE * self._vacuum_seconds)
        is_full = self._endings >= _VACUUM_EVERY_ENDINGS and now - self._vacuumed_at >= rest
        is_old = now - self._pruned_at >= _PRUNE_EVERY_SECONDS
        if not (is_full or is_old) or not self._lock.acquire(blocking=False):
            return
        try:
            if self._thread is not None and self._thread.is_alive():
                return
            if is_full:
                self._endings, self._vacuumed_at = 0, now
            if is_old:
                self._pruned_at = now
            self._thread = threading.Thread(
                target=self._work, args=(is_full, is_old), name="stem-postgres-pruner", daemon=True
            )
            self._thread.start()
        finally:
            self._lock.release()

    def close(self) -> None:
        """A vacuum under way is called off, and a pruning after its current step."""
        self._is_closing = True
        conn, thread = self._vacuuming, self._thread
        if conn is not None and psycopg.capabilities.has_cancel_safe():
            with suppress(psycopg.Error):  # it ended by itself meanwhile
                conn.cancel_safe(timeout=0.5)
        if thread is not None:
            thread.join(1.0)

    def prune(self) -> int:
        """Drop what retention has outlived: one bounded step."""
        return self._prune_step(self._events_cutoff())

    def _work(self, is_full: bool, is_old: bool) -> None:
        try:
            if is_full:
                self._vacuum()
            if is_old and self._is_my_turn():
                self._prune_all()
        except (StemError, psycopg.Error):
            return  # housekeeping only: the next round tries again, and other calls report the outage themselves

    def _prune_all(self) -> None:
        end = monotonic() + _PRUNE_FOR_SECONDS
        cutoff = self._events_cutoff()
        while self._prune_step(cutoff) > 0 and monotonic() < end and not self._is_closing:
            pass

    def _prune_step(self, cutoff: Row) -> int:
        """Each kind is committed by itself: what went stays gone if the next takes too long."""
        kept = self._retention
        return (
            int(self._call("prune_ended", _PRUNE_STEP)[0][0])
            + int(self._call("stage_prune", LEFTOVER_SECONDS, kept.results_seconds)[0][0])
            + int(self._call("prune_records", kept.results_seconds, _PRUNE_STEP)[0][0])
            + int(self._call("prune_events", kept.events_seconds, *cutoff, _PRUNE_STEP)[0][0])
            + int(self._call("rollup_prune", kept.events_seconds, _PRUNE_STEP)[0][0])
            + int(self._call("task_log_prune", kept.logs_seconds, _PRUNE_STEP)[0][0])
        )

    def _events_cutoff(self) -> Row:
        found = self._call("prune_cutoff", self._retention.events_count)
        return found[0] if found else ("0", 0)

    def _call(self, function: str, *values: Any) -> list[Row]:
        query = call(function, len(values) + 1, self._client.address.schema)
        return self._client.rows(query, (self._namespace, *values))

    def _vacuum(self) -> None:
        """A role that does not own the table gets a warning from the server and nothing else."""
        table = sql.Identifier(self._client.address.schema, "messages")
        options = sql.SQL("SKIP_LOCKED, INDEX_CLEANUP ON, TRUNCATE OFF")
        conn = self._client.dedicated()
        begun = monotonic()
        conn.deadline = begun + _VACUUM_SECONDS
        try:
            self._vacuuming = conn
            conn.execute(sql.SQL("VACUUM ({}) {}").format(options, table))
        finally:
            self._vacuuming = None
            self._vacuum_seconds = monotonic() - begun
            conn.close()

    def _is_my_turn(self) -> bool:
        query = sql.SQL(
            "SELECT NOT EXISTS (SELECT FROM {s}.upkeep WHERE ns = %s AND pruned_at > {s}.now_seconds() - %s)"
        ).format(s=sql.Identifier(self._client.address.schema))
        return bool(self._client.rows(query.as_bytes(None), (self._namespace, _PRUNE_EVERY_SECONDS / 2))[0][0])
