"""A namespace lies in one slot, so a Redis store works on a cluster from whichever node its URL names."""

import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import redis

from stem.backends import connect
from stem.core.errors import StoreUnavailable
from stem.core.settings.app import Settings
from support.builders import a_push
from support.servers import RedisServer
from support.until import until

HALF = 8192


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[RedisServer, RedisServer]]:
    first, second = (RedisServer("--cluster-enabled", "yes") for _ in range(2))
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
        store = connect(node.url, Settings(namespace=namespace, timeout_seconds=20.0))
        store.broker.push([a_push(f"{number}-a"), a_push(f"{number}-b", delay=60)])
        (delivery,) = store.broker.claim(["default"], limit=9, lease_seconds=60)
        assert delivery.lease.id == f"{number}-a"
        assert not store.broker.wait(["default"], timeout_seconds=0.05)
        assert store.broker.start([delivery.lease], worker="w") == []
        assert len(store.results.get([f"{number}-a", f"{number}-b"])) == 2
        assert "cluster" in store.upkeep.diagnose().server
        store.upkeep.close()


def test_when_the_node_dies_the_store_asks_the_one_that_its_url_names(cluster: "Cluster") -> None:
    store = connect(cluster.seed.url, Settings(namespace="n", timeout_seconds=20.0))
    store.broker.push([a_push("before")])
    cluster.primary.kill()
    tell(cluster.replica, "CLUSTER FAILOVER", "TAKEOVER")
    until(lambda: leads_to(cluster.seed, "n", cluster.replica) and _is_whole(cluster.seed), seconds=30, every=0.1)
    with pytest.raises(StoreUnavailable):
        store.broker.push([a_push("lost")])
    store.broker.push([a_push("after")])
    assert "after" in store.results.get(["after"])
    store.upkeep.close()


def test_a_namespace_that_is_being_moved_is_unavailable_and_followed_when_it_has_been(
    nodes: tuple[RedisServer, RedisServer],
) -> None:
    first, second = nodes
    here, there = (first, second) if leads_to(second, "moving", first) else (second, first)
    slot = slot_of(here, "moving")
    store = connect(here.url, Settings(namespace="moving", timeout_seconds=20.0))
    tell(there, "CLUSTER SETSLOT", slot, "IMPORTING", name_of(here))
    tell(here, "CLUSTER SETSLOT", slot, "MIGRATING", name_of(there))
    with pytest.raises(StoreUnavailable, match="is moving the namespace to another node; try again shortly"):
        store.broker.push([a_push("a")])
    assert store.revokes.version() == 0  # answered where the keys still are
    tell(here, "MIGRATE", "127.0.0.1", there.port, "stem:{moving}:numbers", 0, 20_000)
    for node in (there, here):
        tell(node, "CLUSTER SETSLOT", slot, "NODE", name_of(there))
    store.broker.push([a_push("a")])
    assert "a" in store.results.get(["a"])
    store.upkeep.close()


class Cluster(NamedTuple):
    seed: RedisServer  # keeps nothing, and knows where everything is
    primary: RedisServer
    replica: RedisServer


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    found = Cluster(*(RedisServer("--cluster-enabled", "yes") for _ in range(3)))
    try:
        tell(found.primary, "CLUSTER ADDSLOTS", *range(2 * HALF))
        for other in (found.seed, found.replica):
            tell(other, "CLUSTER MEET", "127.0.0.1", found.primary.port)
        until(lambda: all(map(_is_whole, found)), seconds=30, every=0.1)
        tell(found.replica, "CLUSTER REPLICATE", name_of(found.primary))
        until(lambda: b"master_link_status:up" in said(found.replica, "INFO replication"), seconds=30, every=0.1)
        until(lambda: b"slave" in said(found.seed, "CLUSTER NODES"), seconds=30, every=0.1)
        yield found
    finally:
        for node in found:
            node.close()


def leads_to(asked: RedisServer, namespace: str, target: RedisServer) -> bool:
    """Whether the one says that the other keeps the namespace."""
    return f":{target.port}".encode() in said(asked, f"GET stem:{{{namespace}}}:")


def slot_of(node: RedisServer, namespace: str) -> int:
    return int(tell(node, "CLUSTER KEYSLOT", f"stem:{{{namespace}}}:"))


def name_of(node: RedisServer) -> str:
    return said(node, "CLUSTER MYID").split()[1].decode()


def said(node: RedisServer, command: str) -> bytes:
    """What the server sends in answer, be it an error."""
    with socket.create_connection(("127.0.0.1", node.port), timeout=5) as plain:
        plain.sendall(command.encode() + b"\r\n")
        return plain.recv(65536)


def _is_whole(node: RedisServer) -> bool:
    return bool(tell(node, "CLUSTER INFO")["cluster_state"] == "ok")


def tell(node: RedisServer, *command: str | int) -> Any:
    with redis.Redis(port=node.port) as client:
        return client.execute_command(*command)
