"""Staged pushes in Postgres. Few of them, or such as are due or expire at some moment, are copied into a table of the job's
own, and from there once more when they become tasks. Many go into tables that become part of the store as they are."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import islice, repeat
from operator import lt
from time import monotonic
from typing import TypeGuard

import psycopg
from psycopg import sql

from stem.backends.postgres.bell import news
from stem.backends.postgres.link import Timed
from stem.backends.postgres.space import Space
from stem.backends.postgres.speaking import Row
from stem.backends.postgres.statements import call, text
from stem.contracts.staging import Calls, Column, Part, Promotion, Staging, incomplete
from stem.core.errors import StoreRefused

_PROMOTION_SECONDS = 3600.0  # as long as it may take to write the largest of jobs
_NULL = "\\N"
_MANY = 1000  # in one batch


class PostgresStaging(Staging):
    def __init__(self, space: Space) -> None:
        self._space = space
        self._begun: set[str] = set()  # jobs
        self._large: set[str] = set()  # parts that began with many
        self._slot = 0  # where the last of these went: one that is written by one process lies in order

    def promoted(self, job: str) -> Promotion | None:
        rows = self._space.ask("stage_promoted", job=job)
        return Promotion(*rows[0]) if rows else None

    def _stage(self, job: str, part: str, calls: Calls) -> None:
        space, rows = self._space, len(calls.ids)
        is_slotted = self._is_slotted(part, calls)
        lines, log = _lines(part, calls), _log_lines(calls) if is_slotted else None
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
                    ((self._slot, table, of_log),) = cursor.execute(slots, (space.namespace, job, self._slot)).fetchall()
                _copy(cursor, space.schema, table, *lines)
                if log is not None:
                    _copy(cursor, space.schema, of_log, *log)
                slotted = rows if is_slotted else 0
                cursor.execute(note, (space.namespace, job, part, rows, slotted, min(calls.ids), max(calls.ids)))

        space.link.transaction(write)

    def _is_slotted(self, part: str, calls: Calls) -> bool:
        """A large part goes on as it began. Where ids do not rise they might repeat."""
        moments = (calls.delays_seconds, calls.dues_at, calls.lifetimes_seconds, calls.expiries_at)
        is_large = len(calls.ids) >= _MANY or part in self._large
        if not is_large or any(map(_some, moments)) or not all(map(lt, calls.ids, islice(calls.ids, 1, None))):
            return False
        self._large.add(part)
        return True

    def _promote(self, job: str, parts: Sequence[Part]) -> Promotion:
        whole = [part for part in parts if part.rows]
        self._seal(job)
        created, known, queues, broken, found = self._patiently(
            "stage_promote", job, [part.name for part in whole], [part.rows for part in whole]
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


def _copy(cursor: "psycopg.Cursor[Row]", schema: str, table: str, names: Sequence[str], lines: str) -> None:
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    copy = sql.SQL(text("asks/stage_copy.sql")).format(table=sql.Identifier(schema, table), columns=columns)
    with cursor.copy(copy) as stream:
        stream.write(lines)


def _log_lines(calls: Calls) -> tuple[list[str], str]:
    """What the events of these pushes will say of their own, as `_lines` has it."""
    lines = map("\t".join, zip(calls.ids, calls.names, calls.queues, strict=True))
    return ["task_id", "name", "queue"], "\n".join(lines) + "\n"


def _lines(part: str, calls: Calls) -> tuple[list[str], str]:
    """The names of the columns that have anything to say, and these as COPY reads them: cells between tabs, where only a
    backslash has to be doubled, for JSON holds no raw tab or end of line and names neither."""
    bodies = list(calls.bodies)
    moments = {
        "delay_seconds": calls.delays_seconds,
        "due_at": calls.dues_at,
        "lifetime_seconds": calls.lifetimes_seconds,
        "expires_at": calls.expiries_at,
        "visibility_timeout": calls.visibilities_seconds,
    }
    columns: dict[str, Iterable[str]] = {
        "part": repeat(_escaped(part)),
        "id": calls.ids,
        "name": calls.names,
        "queue": calls.queues,
        "priority": map(str, calls.priorities),
        **{name: _numbers(column) for name, column in moments.items() if _some(column)},
        **({"meta": ["{}" if meta is None else _escaped(meta) for meta in calls.metas]} if calls.metas else {}),
        "body": map(_escaped, bodies) if any("\\" in body for body in bodies) else bodies,
    }
    return list(columns), "\n".join(map("\t".join, zip(*columns.values(), strict=False))) + "\n"


def _escaped(cell: str) -> str:
    return cell.replace("\\", "\\\\")


def _some(column: Column) -> TypeGuard[Sequence[float | None]]:
    return column is not None and column.count(None) < len(column)


def _numbers(column: Sequence[float | None]) -> list[str]:
    return [_NULL if value is None else str(value) for value in column]
