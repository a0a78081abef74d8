"""Stores, one folder a technology. `connect(url)` is the only way in."""

from contextlib import suppress
from importlib import import_module
from urllib.parse import urlsplit

import msgspec

from stem.contracts.store import Store
from stem.core.config import Settings, masked
from stem.core.errors import ConfigError

_MODULES = {
    "memory": ("stem.backends.memory", ""),
    "sqlite": ("stem.backends.sqlite", ""),
    "redis": ("stem.backends.redis", "redis"),
    "rediss": ("stem.backends.redis", "redis"),
    "postgresql": ("stem.backends.postgres", "postgres"),
    "postgres": ("stem.backends.postgres", "postgres"),
}


def connect(url: str, settings: Settings) -> Store:
    """Open the store that the URL names, its schema made or migrated. Raises ConfigError, StoreUnavailable, StoreRefused."""
    try:
        scheme = urlsplit(url).scheme
    except ValueError as error:
        raise ConfigError(f"{masked(url)!r} is not a URL ({error}); use a form like redis://host:6379/0.") from error
    if scheme not in _MODULES:
        raise ConfigError(
            f"{masked(url)!r} is not a store that Stem knows; use sqlite:///path, redis://host, postgresql://host/db or memory://."
        )
    module, extra = _MODULES[scheme]
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


def placed(settings: Settings) -> Settings:
    """The settings with paths that mean the same from any working directory. Raises StoreRefused."""
    return msgspec.structs.replace(
        settings,
        broker_url=_absolute(settings.broker_url),
        results_url=None if settings.results_url is None else _absolute(settings.results_url),
    )


def _absolute(url: str) -> str:
    if not url.lower().startswith("sqlite:"):
        return url
    from stem.backends.sqlite.address import absolute

    return absolute(url)
