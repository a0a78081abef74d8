"""Staged pushes in Postgres. Few of them, or such as are due or expire at some moment, are copied into a table of the job's
own, and from there once more when they become tasks. Many go into tables that become part of the store as they are."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import islice
from operator import lt
from time import monotonic

import psycopg

from stem.backends.postgres.bell import news
from stem.backends.postgres.copying import copy, log_lines, some, task_lines
from stem.backends.postgres.link import Timed
from stem.backends.postgres.space import Space
from stem.backends.postgres.speaking import Row
from stem.backends.postgres.statements import call
from stem.contracts.staging import Calls, Part, Promotion, Staging, incomplete
from stem.core.errors import StoreRefused

_PROMOTION_SECONDS = 3600.0  # as long as it may take to write the largest of jobs
_MANY = 5_000  # in the first batch of a part, for a slot
_WORTHWHILE = 20_000  # in a job's slots, for tables that are of use until their last task has ended


class PostgresStaging(Staging):
    def __init__(self, space: Space) -> None:
        self._space = space
        self._begun: set[str] = set()  # jobs
        self._slotted: dict[str, bool] = {}  # parts, and whether their next batch may go into a slot
        self._slot = 0  # where the last of these went: one that is written by one process lies in order

    def promoted(self, job: str) -> Promotion | None:
        rows = self._space.ask("stage_promoted", job=job)
        return Promotion(*rows[0]) if rows else None

    def _stage(self, job: str, part: str, calls: Calls) -> None:
        space, rows = self._space, len(calls.ids)
        is_slotted = self._is_slotted(part, calls)
        lines, log = task_lines(part, calls), log_lines(calls) if is_slotted else None
        note = call("stage_note", 7, space.schema)
        if job not in self._begun:  # by itself, so that others need not wait for the rest of this transaction
            space.call("stage_touch", job)
            self._begun.add(job)

        def write(conn: Timed) -> None:
            with conn.cursor() as cursor:
                if log is None:
                    ((table,),) = cursor.execute(call("stage_open", 2, space.schema), (space.namespace, job)).fetchall()
                else:
                    slots = call("stage_slot", 3, space.schema)
                    ((self._slot, table, of_log),) = cursor.execute(
                        slots, (space.namespace, job, self._slot)
                    ).fetchall()
                copy(cursor, space.schema, table, lines)
                if log is not None:
                    copy(cursor, space.schema, of_log, log)
                slotted = rows if is_slotted else 0
                cursor.execute(note, (space.namespace, job, part, rows, slotted, min(calls.ids), max(calls.ids)))

        space.link.transaction(write)

    def _is_slotted(self, part: str, calls: Calls) -> bool:
        """A part begins in a slot if it has many, and leaves it for good, so that it keeps its order. Where ids do not rise they
        might repeat."""
        moments = (calls.delays_seconds, calls.dues_at, calls.lifetimes_seconds, calls.expiries_at)
        goes_on = self._slotted.get(part, len(calls.ids) >= _MANY)
        self._slotted[part] = (
            goes_on and not any(map(some, moments)) and all(map(lt, calls.ids, islice(calls.ids, 1, None)))
        )
        return self._slotted[part]

    def _promote(self, job: str, parts: Sequence[Part]) -> Promotion:
        whole = [part for part in parts if part.rows]
        if sum(part.rows for part in whole) >= _WORTHWHILE:
            self._seal(job)
        created, known, queues, broken, found = self._patiently(
            "stage_promote", job, [part.name for part in whole], [part.rows for part in whole], _WORTHWHILE
        )
        if broken is not None:
            part = next(part for part in whole if part.name == broken)
            raise StoreRefused(incomplete(job, part, found))
        if queues:
            self._space.tell(news(queues))
        self._discard(job)
        return Promotion(created, known)

    def _discard(self, job: str) -> None:
        self._space.call("stage_discard", job)

    def _seal(self, job: str) -> None:
        """Index the job's slots, one beside the other. What fails here is done, or told, by the promotion."""
        slots = [tasks for _, tasks, _ in self._space.call("stage_slots", job)]
        if not slots:
            return
        with ThreadPoolExecutor(len(slots)) as threads:
            wait([threads.submit(self._patiently, "stage_seal", slot) for slot in slots])

    def _patiently(self, function: str, *values: object) -> Row:
        """On a connection of its own, past the deadline of the other calls."""
        space = self._space
        query = call(function, len(values) + 1, space.schema)
        conn = space.link.dedicated()
        try:
            conn.deadline = monotonic() + _PROMOTION_SECONDS
            return conn.execute(query, (space.namespace, *values)).fetchall()[0]
        except psycopg.errors.DataCorrupted as error:
            raise StoreRefused(
                "The staged pushes are gone, as after a crash of the server; nothing was promoted, run the job again."
            ) from error
        except psycopg.Error as error:
            raise space.link.translated(error) from error
        finally:
            conn.close()
