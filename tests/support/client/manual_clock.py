"""An app on a store whose clock a test moves."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stem import Settings, Stem
from stem.backends import memory, sqlite
from stem.runtime.clock import FakeClock


@contextmanager
def clocked(kind: str, place: Path, clock: FakeClock) -> Iterator[Stem]:
    """`kind` is memory or sqlite: the clocks of the others are their servers'."""
    settings = Settings(timeout_seconds=30.0)
    connect = {"memory": memory.connect, "sqlite": sqlite.connect}[kind]
    urls = {"memory": f"memory://clocked-{place.name}", "sqlite": f"sqlite:///{place}/clocked.db"}
    app = Stem(settings=settings)
    store = connect(urls[kind], settings, clock=clock)
    with app.store_connection.replaced(store, clock, after_push=lambda: None, before_wait=lambda: None, worker="w"):
        yield app
