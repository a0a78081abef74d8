"""Staged pushes in Postgres: copied into a table of the job's own, made tasks by one statement."""

from collections.abc import Iterable, Sequence
from itertools import repeat
from time import monotonic

import psycopg
from psycopg import sql

from stem.backends.postgres.bell import news
from stem.backends.postgres.link import Timed
from stem.backends.postgres.space import Space
from stem.backends.postgres.speaking import Row
from stem.backends.postgres.statements import call, text
from stem.contracts.staging import Calls, Part, Promotion, Staging, incomplete
from stem.core.errors import StoreRefused

_PROMOTION_SECONDS = 3600.0  # as long as it may take to write the largest of jobs
_NULL = "\\N"


class PostgresStaging(Staging):
    def __init__(self, space: Space) -> None:
        self._space = space

    def promoted(self, job: str) -> Promotion | None:
        rows = self._space.ask("stage_promoted", job=job)
        return Promotion(*rows[0]) if rows else None

    def _stage(self, job: str, part: str, calls: Calls) -> None:
        names, lines = _lines(part, calls)
        space = self._space
        table = space.call("stage_open", job)[0][0]
        copy = sql.SQL(text("asks/stage_copy.sql")).format(
            table=sql.Identifier(space.schema, table), columns=sql.SQL(", ").join(map(sql.Identifier, names))
        )
        note = call("stage_note", 6, space.schema)

        def write(conn: Timed) -> None:
            with conn.cursor() as cursor:
                with cursor.copy(copy) as stream:
                    stream.write(lines)
                cursor.execute(note, (space.namespace, job, part, len(calls.ids), min(calls.ids), max(calls.ids)))

        space.link.transaction(write)

    def _promote(self, job: str, parts: Sequence[Part]) -> Promotion:
        whole = [part for part in parts if part.rows]
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
        **{name: _numbers(column) for name, column in moments.items() if column is not None},
        **(
            {} if calls.metas is None else {"meta": [_NULL if meta is None else _escaped(meta) for meta in calls.metas]}
        ),
        "body": map(_escaped, bodies) if any("\\" in body for body in bodies) else bodies,
    }
    return list(columns), "\n".join(map("\t".join, zip(*columns.values(), strict=False))) + "\n"


def _escaped(cell: str) -> str:
    return cell.replace("\\", "\\\\")


def _numbers(column: Sequence[float | None]) -> list[str]:
    return [_NULL if value is None else str(value) for value in column]
