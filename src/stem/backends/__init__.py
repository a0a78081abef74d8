"""Stores, one folder a technology. `connect(url)` is the only way in."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from urllib.parse import urlsplit

import msgspec

from stem.contracts.revokes import Revokes
from stem.contracts.store import Store
from stem.core.config import Settings, masked, without_driver
from stem.core.errors import ConfigError

_MODULES = {
    "memory": ("stem.backends.memory", ""),
    "sqlite": ("stem.backends.sqlite", ""),
    "redis": ("stem.backends.redis", "redis"),
    "rediss": ("stem.backends.redis", "redis"),
    "postgresql": ("stem.backends.postgres.store", "postgres"),
    "postgres": ("stem.backends.postgres.store", "postgres"),
}
_BRIEF = {"postgresql": "stem.backends.postgres.brief", "postgres": "stem.backends.postgres.brief"}


@dataclass(frozen=True, slots=True)
class RevokeStore:
    """Where revokes are kept, with or without tasks beside them."""

    url: str  # without its password
    revokes: Revokes
    now: Callable[[], float]  # the store's clock
    close: Callable[[], None]


def connect(url: str, settings: Settings) -> Store:
    """Open the store that the URL names, its schema made or migrated. Raises ConfigError, StoreUnavailable, StoreRefused."""
    return _connect(_MODULES[check_url(url)][0], without_driver(url), settings)


def connect_briefly(url: str, settings: Settings) -> Store:
    """The same for a process that asks a few things, ends soon, and runs no code but ours: of the backend's driver no more is
    imported than it needs, for nobody misses what is not there (most of redis and psycopg; TLS for asyncio: libpq has its
    own)."""
    scheme = check_url(url)
    _preload_briefly(scheme)
    return _connect(_BRIEF.get(scheme, _MODULES[scheme][0]), without_driver(url), settings)


def _connect(module: str, url: str, settings: Settings) -> Store:
    scheme = urlsplit(url).scheme
    _, extra = _MODULES[scheme]
    try:
        backend = import_module(module)
    except ModuleNotFoundError as error:
        if not extra or (error.name or "").startswith("stem"):
            raise
        raise ConfigError(
            f"The {scheme} store needs the package {error.name!r}; pip install 'stem-tasks[{extra}]'."
        ) from error
    store: Store = backend.connect(url, settings)
    return store


def preload(url: str) -> None:
    """Import the backend of the URL, if there is one, ahead of `connect`."""
    module, _ = _MODULES.get(url.partition(":")[0], ("", ""))
    if module:
        with suppress(ImportError):
            import_module(module)


def _preload_briefly(scheme: str) -> None:
    from stem.runtime.importing import import_part

    with suppress(ImportError):
        match scheme:
            case "redis" | "rediss":
                import_part("redis.connection", later=("importlib.metadata",), without=("opentelemetry",))
            case "postgresql" | "postgres":
                later = ("calendar", "csv", "ctypes", "shutil", "tempfile", "zipfile")
                import_part("psycopg.pq", "psycopg.conninfo", later=later, without=("ssl",))
            case _:
                pass


def connect_revokes(settings: Settings) -> RevokeStore:
    """Open the store of the revokes: the one named for them, else that of the results, else the broker's. It may also be a
    file: file:///path, or a bare path. Raises ConfigError, StoreUnavailable, StoreRefused."""
    url = settings.revokes_url
    if url is not None and is_file(url):
        from stem.backends import file

        marks = file.connect(url, settings)
        return RevokeStore(url=url, revokes=marks, now=marks.now, close=marks.close)
    store = connect(settings.revokes_place, settings)
    return RevokeStore(url=store.url, revokes=store.revokes, now=store.upkeep.now, close=store.upkeep.close)


def is_file(url: str) -> bool:
    """A file:// URL, or no URL at all: a bare path."""
    return url.lower().startswith("file:") or "://" not in url


def check_url(url: str) -> str:
    """The scheme of a store that Stem knows. Opens nothing. Raises ConfigError."""
    try:
        scheme = urlsplit(without_driver(url)).scheme
    except ValueError as error:
        raise ConfigError(f"{masked(url)!r} is not a URL ({error}); use a form like redis://host:6379/0.") from error
    if scheme not in _MODULES:
        raise ConfigError(
            f"{masked(url)!r} is not a store that Stem knows; use sqlite:///path, redis://host, postgresql://host/db or memory://."
        )
    return scheme


def placed(settings: Settings) -> Settings:
    """The settings with paths that mean the same from any working directory. Raises StoreRefused."""
    return msgspec.structs.replace(
        settings,
        broker_url=_absolute(settings.broker_url),
        results_url=None if settings.results_url is None else _absolute(settings.results_url),
        revokes_url=None if settings.revokes_url is None else _absolute(settings.revokes_url, may_be_file=True),
    )


def _absolute(url: str, *, may_be_file: bool = False) -> str:
    if may_be_file and is_file(url):
        from stem.backends.file.address import address

        return str(address(url))
    if not url.lower().startswith("sqlite:"):
        return url
    from stem.backends.sqlite.address import absolute

    return absolute(url)
