"""Servers for the whole run, and a fresh namespace of each store for every test."""

import os
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import HealthCheck, settings

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.settings.app import Retention, Settings
from support.servers import PostgresServer, RedisServer

# A machine that is busy with other tests is slow at times; that is nothing that a property says. And what holds today is to
# hold tomorrow: new examples are sought where somebody reads what is found.
settings.register_profile(
    "shared machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("STEM_HYPOTHESIS") != "deep",
)
settings.load_profile("shared machine")

# A job in the background of a shell ignores Ctrl-C, and so would every command that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as under nohup, where workers are right to stay
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
PATIENCE = 30.0  # a server that has to share its processor answers late, and is there all the same

BACKENDS = ("memory", "sqlite", "redis", "postgres")
_names = count(1)


class OpenStore(Protocol):
    """Connect once more to the test's store; None for the test's own namespace. Closed when the test ends."""

    def __call__(self, other: str | None = None, *, retention: Retention | None = None) -> Store: ...


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture(params=BACKENDS)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a real store, of each technology in turn."""
    return url_of(request.param, request, tmp_path)


@pytest.fixture(params=BACKENDS[1:])
def durable_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same without memory: stores that other processes can reach."""
    return url_of(request.param, request, tmp_path)


def url_of(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if backend == "memory":
        return f"memory://space{next(_names)}"
    if backend == "sqlite":
        return f"sqlite:///{tmp_path}/stem.db"
    server: RedisServer | PostgresServer = request.getfixturevalue(f"{backend}_server")
    return server.url


@pytest.fixture
def namespace() -> str:
    return f"test{next(_names)}"


@pytest.fixture
def store(store_url: str, namespace: str) -> Iterator[Store]:
    opened = connect(store_url, Settings(namespace=namespace, timeout_seconds=PATIENCE))
    yield opened
    opened.upkeep.close()


@pytest.fixture
def durable_store(durable_url: str, namespace: str) -> Iterator[Store]:
    opened = connect(durable_url, Settings(namespace=namespace, timeout_seconds=PATIENCE))
    yield opened
    opened.upkeep.close()


@pytest.fixture
def open_store(store_url: str, namespace: str) -> Iterator[OpenStore]:
    opened: list[Store] = []

    def open_one(other: str | None = None, *, retention: Retention | None = None) -> Store:
        kept = retention or Retention()
        settings = Settings(namespace=other or namespace, timeout_seconds=PATIENCE, retention=kept)
        opened.append(connect(store_url, settings))
        return opened[-1]

    yield open_one
    for each in opened:
        each.upkeep.close()
