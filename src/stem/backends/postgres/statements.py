"""The SQL files, read once; the schema's name set in, quoted."""

from functools import cache
from importlib.resources import files
from typing import LiteralString

from psycopg import sql

_FOLDER = files(__package__) / "sql"


@cache
def text(path: str) -> LiteralString:
    """The file as it is."""
    return (_FOLDER / path).read_text(encoding="utf-8")


@cache
def ask(name: str, schema: str) -> bytes:
    """A statement of sql/asks, ready to be executed."""
    return sql.SQL(text(f"asks/{name}.sql")).format(s=sql.Identifier(schema)).as_bytes(None)


@cache
def numbered(function: str, parameters: int, schema: str) -> bytes:
    """A call of one of sql/verbs as libpq takes it, its parameters numbered."""
    marks = sql.SQL(", ").join([sql.SQL(f"${number}") for number in range(1, parameters + 1)])
    return sql.SQL("SELECT * FROM {}({})").format(sql.Identifier(schema, function), marks).as_bytes(None)


@cache
def call(function: str, parameters: int, schema: str) -> str:
    """A call of one of sql/verbs with so many positional parameters."""
    marks = sql.SQL(", ").join([sql.SQL("%s")] * parameters)
    query = sql.SQL("SELECT * FROM {}({})").format(sql.Identifier(schema, function), marks)
    return query.as_string(None)
