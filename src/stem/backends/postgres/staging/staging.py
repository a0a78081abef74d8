"""Stage pushes in Postgres: COPY into the job's table, and one INSERT … SELECT when they become tasks."""

from collections.abc import Sequence
from time import monotonic

import psycopg

from stem.backends.postgres.codec.push_columns import push
from stem.backends.postgres.connection.deadline_connection import DeadlineConnection, Row
from stem.backends.postgres.namespace import PostgresNamespace
from stem.backends.postgres.notify.notifier import Notification, notification
from stem.backends.postgres.staging.copy_format import copy, task_lines
from stem.backends.postgres.statements import call
from stem.contracts.staging import Calls, Part, Promotion, Staging, incomplete
from stem.core.envelope import Push
from stem.core.errors import StoreRefused, StoreUnavailable

_TRIES_ALONE = 4  # concurrent pushes may have the same ids
_PROMOTION_SECONDS = 3600.0  # as long as it may take to write the largest of jobs


class PostgresStaging(Staging):
    def __init__(self, namespace: PostgresNamespace) -> None:
        self._namespace = namespace

    def promoted(self, job: str) -> Promotion | None:
        rows = self._namespace.query("stage_promoted", job=job)
        return Promotion(*rows[0]) if rows else None

    def _stage(self, job: str, part: str, calls: Calls) -> None:
        namespace, lines = self._namespace, task_lines(part, calls)
        # In a transaction of its own: concurrent stagers must not wait for our rows.
        ((table,),) = namespace.call("stage_open", job)

        def write(conn: DeadlineConnection) -> None:
            with conn.cursor() as cursor:
                copy(cursor, namespace.schema, table, lines)

        namespace.client.transaction(write)

    def _promote(self, job: str, parts: Sequence[Part], pushes: Sequence[Push]) -> Promotion:
        whole = [part for part in parts if part.rows]
        (created, known, queues, broken, found), change = self._promoted(job, whole, pushes)
        if broken is not None:
            part = next(part for part in whole if part.name == broken)
            raise StoreRefused(incomplete(job, part, found))
        if queues is not None:
            change.add(notification(queues))
            self._namespace.notify(change)
        self._discard(job)
        return Promotion(created, known)

    def _discard(self, job: str) -> None:
        self._namespace.call("stage_discard", job)

    def _promoted(self, job: str, parts: list[Part], pushes: Sequence[Push]) -> tuple[Row, Notification]:
        """Promote side by side with other jobs, and alone once two that share ids have locked each other out."""
        for lock in ("pg_advisory_xact_lock_shared", *["pg_advisory_xact_lock"] * _TRIES_ALONE):
            try:
                return self._promoted_under(lock, job, parts, pushes)
            except StoreUnavailable as error:
                failure = error
                if not isinstance(error.__cause__, psycopg.errors.DeadlockDetected):
                    raise
        raise failure

    def _promoted_under(
        self, lock: str, job: str, parts: list[Part], pushes: Sequence[Push]
    ) -> tuple[Row, Notification]:
        """On a connection of its own, past the deadline of the other calls."""
        namespace = self._namespace
        names, rows = [part.name for part in parts], [part.rows for part in parts]
        values = (namespace.name, job, names, rows, namespace.retention.results_seconds)
        conn = namespace.client.dedicated()
        try:
            conn.deadline = monotonic() + _PROMOTION_SECONDS
            with conn.transaction():
                conn.execute(
                    f"SELECT {lock}(hashtextextended(%s, 0))", [f"stem.promote/{namespace.schema}/{namespace.name}"]
                )
                promoted = conn.execute(call("stage_promote", len(values), namespace.schema), values).fetchall()[0]
                if not pushes or promoted[2] is None:  # promoted before, or incomplete
                    return promoted, Notification()
                pushed = push(lambda query, given: conn.execute(query, given).fetchall(), namespace, pushes)
                return promoted, pushed.change
        except psycopg.Error as error:
            raise namespace.client.translated(error) from error
        finally:
            conn.close()
