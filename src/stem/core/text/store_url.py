"""Tells whether two URLs mean the same store."""

from posixpath import normpath
from urllib.parse import parse_qsl, unquote, urlsplit


def store_key(url: str) -> tuple[str, ...]:
    """Return a key that is equal for two URLs of one store: without credentials and tuning, with defaults. A URL that cannot
    be parsed is its own key."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return (url,)
    host = parts.hostname or ""
    host = "127.0.0.1" if host == "localhost" else host
    options, path = dict(parse_qsl(parts.query)), unquote(parts.path)
    match parts.scheme:
        case "sqlite":
            return ("sqlite", normpath(path[1:]))
        case "redis" | "rediss":
            return ("redis", host, str(port or 6379), path.strip("/") or "0")
        case "postgresql" | "postgres":
            database = path.strip("/") or options.get("dbname") or parts.username or ""
            server = (host or options.get("host", ""), str(port or options.get("port") or 5432))
            return ("postgres", *server, database, options.get("schema", "stem"))
        case _:
            return (url,)
