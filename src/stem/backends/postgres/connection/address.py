"""Turn a store URL and settings into libpq's parameters, the schema, and a name that is fit for messages."""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import ProgrammingError
from psycopg.pq import version as libpq_version

from stem.core.errors import ConfigError
from stem.core.settings.app import Settings, masked
from stem.core.text.loopback import is_loopback

_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)
_LIBPQ_WITH_SYSTEM_ROOTS = 160000
_OWN_ROOTS = Path("~/.postgresql/root.crt").expanduser()  # where libpq looks by itself


@dataclass(frozen=True, slots=True)
class Address:
    conninfo: str = field(repr=False)  # what libpq reads; holds the password
    schema: str
    name: str  # without secrets
    owners: tuple[str, ...] = ()  # roles, besides our own, whose schema and functions we use


def address(url: str, settings: Settings) -> Address:
    asked = _asked(url)
    schema = dict(asked).get("schema", "stem")
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise ConfigError(f"Schema {schema!r} in the Postgres URL is not a plain name; use letters, digits and '_'.")
    name = masked(_with_query(url, asked))
    plain = _with_query(url, [(key, value) for key, value in asked if key != "schema"])
    try:
        given = conninfo_to_dict(plain)
    except ProgrammingError as error:
        raise ConfigError(
            f"{name!r} is not a Postgres URL ({_first_line(error)}); use postgresql://user:password@host/database."
        ) from error
    # What the URL says goes before what we would choose.
    chosen = {**_network(settings), **_tls(settings, given)}
    parameters: dict[str, Any] = {**chosen, **given}
    return Address(make_conninfo(**parameters), schema, name, settings.postgres_owners)


def _network(settings: Settings) -> dict[str, str | int]:
    seconds = max(2, math.ceil(settings.timeout_seconds))  # libpq knows whole seconds, from 2
    return {
        "connect_timeout": seconds,
        "tcp_user_timeout": int(settings.timeout_seconds * 1000),
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "application_name": "stem",
        "client_encoding": "utf8",
    }


def _tls(settings: Settings, given: Mapping[str, Any]) -> dict[str, str]:
    """Beyond this machine the server must show a certificate for its name, unless the URL or PGSSLMODE says otherwise."""
    tls = settings.tls
    chosen: dict[str, str] = {}
    if tls.cert_file is not None:
        chosen["sslcert"] = str(tls.cert_file)
    if tls.key_file is not None:
        chosen["sslkey"] = str(tls.key_file)
    if not tls.verify:
        chosen["sslmode"] = "require"  # without sslrootcert, against which libpq would verify the chain all the same
    elif tls.ca_file is not None:
        chosen |= {"sslrootcert": str(tls.ca_file), "sslmode": "verify-full"}
    elif "sslmode" not in given and "PGSSLMODE" not in os.environ and _is_beyond(given):
        chosen |= {"sslmode": "verify-full", **_roots(given)}
    return chosen


def _is_beyond(given: Mapping[str, Any]) -> bool:
    """Whether one of the hosts is another machine, by its name or address; a path is a socket on this one."""
    hosts = given.get("hostaddr") or given.get("host") or os.environ.get("PGHOSTADDR") or os.environ.get("PGHOST") or ""
    return any(host and not host.startswith(("/", "@")) and not is_loopback(host) for host in str(hosts).split(","))


def _roots(given: Mapping[str, Any]) -> dict[str, str]:
    """The system's authorities, where libpq knows how to use them and nobody has named others."""
    is_named = "sslrootcert" in given or "PGSSLROOTCERT" in os.environ or _OWN_ROOTS.exists()
    has_system = libpq_version() >= _LIBPQ_WITH_SYSTEM_ROOTS
    return {"sslrootcert": "system"} if has_system and not is_named else {}


def _asked(url: str) -> list[tuple[str, str]]:
    """The parameters, read as libpq reads them: a plus is a plus."""
    try:
        query = urlsplit(url).query
    except ValueError as error:
        raise ConfigError(
            f"{masked(url)!r} is not a Postgres URL ({error}); use postgresql://user:password@host/database."
        ) from error
    pairs = (each.partition("=") for each in query.split("&") if each)
    return [(unquote(key), unquote(value)) for key, _, value in pairs]


def _with_query(url: str, query: list[tuple[str, str]]) -> str:
    pairs = [f"{quote(key)}={quote(value, safe='/*:@,')}" for key, value in query]
    base = url.partition("?")[0]  # as it stands: urlunsplit would drop the slashes of a URL without a host
    return f"{base}?{'&'.join(pairs)}" if pairs else base


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
