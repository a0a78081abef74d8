"""A namespace lies in one slot, so a Redis store works on a cluster from whichever node its URL names."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from stem.backends import connect
from stem.core.config import Settings
from support.builders import a_push
from support.servers import RedisServer, free_port
from support.until import until

HALF = 8192


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[RedisServer, RedisServer]]:
    first, second = (RedisServer("--cluster-enabled", "yes", port=_low_port()) for _ in range(2))
    try:
        tell(first, "CLUSTER ADDSLOTS", *range(HALF))
        tell(second, "CLUSTER ADDSLOTS", *range(HALF, 2 * HALF))
        tell(first, "CLUSTER MEET", "127.0.0.1", second.port)
        until(lambda: _is_whole(first) and _is_whole(second), seconds=30, every=0.1)
        yield first, second
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("namespace", ["here", "there", "elsewhere", "anywhere"])
def test_a_store_finds_the_node_that_keeps_its_namespace(
    nodes: tuple[RedisServer, RedisServer], namespace: str
) -> None:
    for number, node in enumerate(nodes):
        store = connect(node.url, Settings(namespace=namespace))
        store.broker.push([a_push(f"{number}-a"), a_push(f"{number}-b", delay=60)])
        (delivery,) = store.broker.claim(["default"], limit=9, lease_seconds=30)
        assert delivery.lease.id == f"{number}-a"
        assert not store.broker.wait(["default"], timeout_seconds=0.05)
        assert store.broker.start([delivery.lease], worker="w") == []
        assert len(store.results.get([f"{number}-a", f"{number}-b"])) == 2
        assert "cluster" in store.upkeep.diagnose().server
        store.upkeep.close()


def _is_whole(node: RedisServer) -> bool:
    return bool(tell(node, "CLUSTER INFO")["cluster_state"] == "ok")


def tell(node: RedisServer, *command: str | int) -> Any:
    with redis.Redis(port=node.port) as client:
        return client.execute_command(*command)


def _low_port() -> int:
    """A node listens to its fellows on a second port, 10,000 above."""
    while (port := free_port()) > 55_535:
        pass
    return port
