"""The stores, one folder per technology. `connect(url)` is the only way in."""

from contextlib import suppress
from importlib import import_module
from urllib.parse import urlsplit

from stem.contracts.store import Store
from stem.core.errors import ConfigError
from stem.core.settings.app import Settings, masked, without_driver

_MODULES = {
    "memory": ("stem.backends.memory", ""),
    "sqlite": ("stem.backends.sqlite", ""),
    "redis": ("stem.backends.redis", "redis"),
    "rediss": ("stem.backends.redis", "redis"),
    "postgresql": ("stem.backends.postgres.store", "postgres"),
    "postgres": ("stem.backends.postgres.store", "postgres"),
}


def connect(url: str, settings: Settings) -> Store:
    """Open the store that the URL names, its schema made or migrated. Raises ConfigError, StoreUnavailable, StoreRefused."""
    scheme = check_url(url)
    module, extra = _MODULES[scheme]
    try:
        backend = import_module(module)
    except ModuleNotFoundError as error:
        if not extra or (error.name or "").startswith("stem"):
            raise
        raise ConfigError(
            f"The {scheme} store needs the package {error.name!r}; pip install 'stem-tasks[{extra}]'."
        ) from error
    store: Store = backend.connect(without_driver(url), settings)
    return store


def preload(url: str) -> None:
    """Import the backend of the URL, if there is one, ahead of `connect`."""
    module, _ = _MODULES.get(url.partition(":")[0], ("", ""))
    if module:
        with suppress(ImportError):
            import_module(module)


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
