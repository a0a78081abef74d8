"""Format calls as COPY reads them: cells between tabs. Only backslashes must be doubled, because neither JSON nor names contain
raw tabs or line ends."""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import TypeGuard

from psycopg import Cursor, sql

from stem.backends.postgres.connection.deadline_connection import Row
from stem.backends.postgres.statements import text
from stem.contracts.staging import FRONT, Calls, Column, UniformBodies

_NULL = "\\N"
Lines = tuple[list[str], str]  # the columns that have anything to say, and the rows


def copy(cursor: Cursor[Row], schema: str, table: str, lines: Lines) -> None:
    names, rows = lines
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    command = sql.SQL(text("queries/stage_copy.sql")).format(table=sql.Identifier(schema, table), columns=columns)
    with cursor.copy(command) as stream:
        stream.write(rows)


def task_lines(part: str, calls: Calls) -> Lines:
    kind = calls.one_kind()
    if kind is not None and isinstance(calls.bodies, UniformBodies) and all(cell is None for cell in kind[3:]):
        name, queue, priority, *_ = kind
        return _uniform(f"{_escaped(part)}\t", f"\t{name}\t{queue}\t{priority}\t{FRONT}", calls.bodies)
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
        "body": _all_escaped(list(calls.bodies)),
    }
    return list(columns), "\n".join(map("\t".join, zip(*columns.values(), strict=False))) + "\n"


def _some(column: Column) -> TypeGuard[Sequence[float | None]]:
    return column is not None and column.count(None) < len(column)


def _uniform(front: str, middle: str, bodies: UniformBodies) -> Lines:
    """Write uniform calls: what all rows share is escaped once."""
    between, behind = _escaped(bodies.between), f"{_escaped(bodies.behind)}\n"
    pairs = zip(bodies.ids, _all_escaped(bodies.args), strict=True)
    rows = [f"{front}{id}{middle}{id}{between}{args}{behind}" for id, args in pairs]
    return ["part", "id", "name", "queue", "priority", "body"], "".join(rows)


def _all_escaped(cells: Sequence[str]) -> Iterable[str]:
    return map(_escaped, cells) if any("\\" in cell for cell in cells) else cells


def _escaped(cell: str) -> str:
    return cell.replace("\\", "\\\\")


def _numbers(column: Sequence[float | None]) -> list[str]:
    return [_NULL if value is None else str(value) for value in column]
