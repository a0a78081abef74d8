"""Read a sqlite:// URL: which file it names, and how durable its writes are."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from stem.core.errors import ConfigError, StoreRefused
from stem.core.settings.app import masked

_RELATIVE = "sqlite:///"
SYNCHRONOUS = ("normal", "full")


@dataclass(frozen=True, slots=True)
class SqliteAddress:
    path: Path  # absolute, so that a later chdir changes nothing
    synchronous: str


def address(url: str) -> SqliteAddress:
    parts = urlsplit(url)
    name = unquote(parts.path[1:])
    if parts.netloc:
        raise ConfigError(
            f"{masked(url)!r} names a host, and SQLite is a file; use sqlite:///relative.db or sqlite:////absolute/path.db."
        )
    if not name or parts.fragment or "\x00" in name:
        raise ConfigError(f"{url!r} names no file; use sqlite:///relative.db or sqlite:////absolute/path.db.")
    if name == ":memory:":
        raise ConfigError(
            "SQLite in memory cannot be shared; use memory:// for tests or sqlite:///stem.db to keep tasks."
        )
    return SqliteAddress(_here(url) / name, _synchronous(url, parts.query))


def absolute(url: str) -> str:
    """The same URL, so that its path means the same from any working directory. Raises StoreRefused."""
    scheme, name = url[: len(_RELATIVE)], url[len(_RELATIVE) :]
    if scheme.lower() != _RELATIVE or not name or unquote(name).startswith(("/", ":memory:", "?", "#")):
        return url
    return f"{_RELATIVE}{quote(str(_here(url)))}/{name}"


def _here(url: str) -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        if url.startswith(f"{_RELATIVE}/"):
            return Path("/")
        raise StoreRefused(
            f"{url!r} counts from the working directory, which is gone; go to another one, or use sqlite:////absolute/path.db."
        ) from error


def _synchronous(url: str, query: str) -> str:
    options = dict(parse_qsl(query, keep_blank_values=True))
    value = options.pop("synchronous", "full").lower()
    if options or value not in SYNCHRONOUS:
        raise ConfigError(f"{url!r} has an option that is not known; the only one is ?synchronous=full or =normal.")
    return value
