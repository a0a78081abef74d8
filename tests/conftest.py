"""Servers for the whole run, and a fresh namespace of each store for every test."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.config import Settings
from support.servers import PostgresServer, RedisServer

BACKENDS = ("memory", "sqlite", "redis", "postgres")
_names = count(1)


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
        return f"memory://{request.node.name}"
    if backend == "sqlite":
        return f"sqlite:///{tmp_path}/stem.db"
    server: RedisServer | PostgresServer = request.getfixturevalue(f"{backend}_server")
    return server.url


@pytest.fixture
def namespace() -> str:
    return f"test{next(_names)}"


@pytest.fixture
def store(store_url: str, namespace: str) -> Iterator[Store]:
    opened = connect(store_url, Settings(namespace=namespace))
    yield opened
    opened.upkeep.close()
