"""The store that a database of Django's can be: the same SQLite file, or the same Postgres database."""

import sqlite3
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlencode

from django.db import connections

from stem.core.errors import ConfigError
from stem.core.text.store_url import store_key

OF_TESTS = "memory://django-tests"
_LIBPQ = ("sslmode", "sslrootcert", "sslcert", "sslkey", "passfile", "service", "target_session_attrs")

_names: dict[str, Any] = {}  # of the databases when Django started
_prepared: set[str] = set()  # the databases that are known to have Stem's tables


def remember_names() -> None:
    """Call before a test runner puts its own databases in the place of the project's."""
    for alias, database in connections.settings.items():
        _names.setdefault(alias, database["NAME"])


def is_of_tests(alias: str) -> bool:
    name = connections.settings[alias]["NAME"]
    return bool(name != _names.get(alias, name))


def store_url(alias: str) -> str | None:
    """The URL of the database for Stem; None if Stem cannot keep tasks there. Under a test runner it is a store in memory:
    the runner could not drop a database that Stem has open."""
    if is_of_tests(alias):
        return OF_TESTS
    database = connections.settings[alias]
    match database["ENGINE"].rpartition(".")[2]:
        case "sqlite3" | "spatialite" if not str(database["NAME"]).startswith((":memory:", "file:")):
            return f"sqlite:///{quote(str(database['NAME']))}"
        case "postgresql" | "postgis":
            return _postgres_url(database)
        case _:
            return None


def is_same(url: str, alias: str) -> bool:
    """Whether the store is this database, so that its transactions can hold tasks."""
    own = None if is_of_tests(alias) else store_url(alias)
    return own is not None and store_key(own)[:4] == store_key(url)[:4]  # without the schema


def check_tables(alias: str) -> None:
    """Raises ConfigError if an SQLite file lacks Stem's tables: they cannot be created while a transaction holds its lock."""
    if alias in _prepared or connections[alias].vendor != "sqlite":
        return
    if not _has_tables(str(connections[alias].settings_dict["NAME"])):
        raise ConfigError("Stem's tables are not in the database yet; run: python manage.py migrate")
    _prepared.add(alias)


def _has_tables(path: str) -> bool:
    """Looks through a connection of its own. A read in the caller's transaction would fix its snapshot, and SQLite refuses to
    write in a transaction whose snapshot is out of date."""
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=5)) as database:
            found = database.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'stem_meta'")
            return found.fetchone() is not None
    except sqlite3.OperationalError:  # no file yet
        return False


def _postgres_url(database: dict[str, Any]) -> str:
    user, password = quote(database["USER"], safe=""), quote(database["PASSWORD"], safe="")
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    host, port, name = str(database["HOST"]), str(database["PORT"]), quote(str(database["NAME"] or ""), safe="")
    options = {key: str(value) for key, value in database["OPTIONS"].items() if key in _LIBPQ}
    if host.startswith("/"):  # the folder of a socket
        options, host = {"host": host, **({"port": port} if port else {}), **options}, ""
    server = f"{host}:{port}" if host and port else host
    return f"postgresql://{login}{server}/{name}{'?' if options else ''}{urlencode(options)}"
