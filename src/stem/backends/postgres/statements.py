"""Read the SQL files once, and insert the quoted name of the schema."""

from functools import cache
from importlib.resources import files
from typing import LiteralString

VERSION = 19  # of tables and functions
OLDEST_SERVER = 130000  # that understands them

_FOLDER = files(__package__) / "sql"


@cache
def text(path: str) -> LiteralString:
    """The file as it is."""
    return (_FOLDER / path).read_text(encoding="utf-8")


@cache
def query_text(name: str, schema: str) -> bytes:
    """A statement of sql/queries for this schema."""
    return text(f"queries/{name}.sql").format(s=identifier(schema)).encode()


@cache
def numbered(function: str, parameters: int, schema: str) -> bytes:
    """A call of one of sql/functions as libpq takes it, its parameters numbered."""
    return _call(function, [f"${number}" for number in range(1, parameters + 1)], schema).encode()


@cache
def call(function: str, parameters: int, schema: str) -> str:
    """A call of one of sql/functions with this many positional parameters."""
    return _call(function, ["%s"] * parameters, schema)


def identifier(*names: str) -> str:
    """A name as Postgres quotes it."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def _call(function: str, marks: list[str], schema: str) -> str:
    return f"SELECT * FROM {identifier(schema, function)}({', '.join(marks)})"  # noqa: S608 - a name, quoted
