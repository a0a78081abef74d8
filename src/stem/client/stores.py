"""Opens the stores that the settings name. The composition root: nothing else above `stem.backends` picks a backend."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from stem.backends import check_url as check_url
from stem.backends import connect as connect
from stem.backends import preload as preload
from stem.contracts.steering.revokes import Revokes
from stem.contracts.store import Store
from stem.core.errors import StemError
from stem.core.settings.app import Settings


def open_store(settings: Settings) -> Store:
    """Opens the broker's store, joined with the result store if that is another one. Raises ConfigError,
    StoreUnavailable, StoreRefused."""
    broker = connect(settings.broker_url, settings)
    if not settings.results_are_apart or settings.results_url is None:
        return broker
    from stem.backends.split import join

    try:
        return join(broker, connect(settings.results_url, settings))
    except StemError:
        broker.upkeep.close()
        raise


class RevokeStore(msgspec.Struct, frozen=True):
    """The store of revokes and pauses: the one that holds the tasks, another one, or a file."""

    url: str  # without its password
    revokes: Revokes
    now: Callable[[], float]  # the store's clock
    close: Callable[[], None]


def connect_revokes(settings: Settings) -> RevokeStore:
    """Opens the store named for revokes, else the result store, else the broker's. It may also be a file: file:///path, or
    a bare path. Raises ConfigError, StoreUnavailable, StoreRefused."""
    url = settings.revokes_url
    if url is not None and _is_file(url):
        from stem.backends import file

        revokes = file.connect(url, settings)
        return RevokeStore(url=url, revokes=revokes, now=revokes.now, close=revokes.close)
    store = connect(settings.revokes_place, settings)
    return RevokeStore(url=store.url, revokes=store.revokes, now=store.upkeep.now, close=store.upkeep.close)


@contextmanager
def revokes_of(store: Store, settings: Settings) -> Iterator[Revokes]:
    """Yields the revokes of the store, or of the one that the settings name for them."""
    if settings.revokes_place == settings.broker_url:
        yield store.revokes
        return
    opened = connect_revokes(settings)
    try:
        yield opened.revokes
    finally:
        opened.close()


def check_revokes_url(url: str) -> None:
    """Raises ConfigError if no revokes can be kept there."""
    if not _is_file(url):
        check_url(url)
        return
    from stem.backends.file.address import address

    address(url)


def sqlite_path(url: str) -> Path | None:
    """The file of an SQLite store; None for other stores. Raises ConfigError, StoreRefused."""
    if check_url(url) != "sqlite":
        return None
    from stem.backends.sqlite.connection.address import address

    return address(url).path


def with_absolute_paths(settings: Settings) -> Settings:
    """Makes the paths of SQLite stores and revoke files independent of the working directory. Raises StoreRefused."""
    return msgspec.structs.replace(
        settings,
        broker_url=_absolute(settings.broker_url),
        results_url=None if settings.results_url is None else _absolute(settings.results_url),
        revokes_url=None if settings.revokes_url is None else _absolute(settings.revokes_url, may_be_file=True),
    )


def _absolute(url: str, *, may_be_file: bool = False) -> str:
    if may_be_file and _is_file(url):
        from stem.backends.file.address import address

        return str(address(url))
    if not url.lower().startswith("sqlite:"):
        return url
    from stem.backends.sqlite.connection.address import absolute

    return absolute(url)


def _is_file(url: str) -> bool:
    """Whether it is a file:// URL or a bare path."""
    return url.lower().startswith("file:") or "://" not in url
