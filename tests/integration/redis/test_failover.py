"""What a Redis store does when the server behind its address changes, and when its idle connections have silently died."""

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
import redis

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.errors import StoreUnavailable
from stem.core.settings.app import Settings
from support.background import in_thread, takes_less_than
from support.builders import a_push
from support.servers import RedisServer
from support.stores.calls import answered, claim, ids
from support.stores.handoffs import registrations, wait_for_handoff
from support.until import until

EARS = 8


@pytest.fixture
def pair() -> Iterator[tuple[RedisServer, RedisServer]]:
    first, second = RedisServer(), RedisServer()
    yield first, second
    first.close()
    second.close()


@pytest.fixture
def forwarder(redis_server: RedisServer) -> Iterator["Forwarder"]:
    opened = Forwarder(redis_server.port)
    yield opened
    opened.close()


def test_after_a_failover_the_next_call_reaches_the_new_primary(pair: tuple[RedisServer, RedisServer]) -> None:
    old, new = pair
    forwarder = Forwarder(old.port)
    store = connect(forwarder.url, Settings(namespace="failover", timeout_seconds=20.0))
    store.broker.push([a_push("before")])
    demote(old, new)
    forwarder.port = new.port
    store.broker.push([a_push("after")])
    assert set(store.results.get(["before", "after"])) == {"before", "after"}
    assert {lease.lease.id for lease in store.broker.claim(["default"], limit=9, lease_seconds=60)} == {
        "before",
        "after",
    }
    store.upkeep.close()
    forwarder.close()


def test_after_a_failover_nothing_is_handed_over_that_is_claimed_as_well(pair: tuple[RedisServer, RedisServer]) -> None:
    """Who listens at the old primary hears what is said at the new one, as all its replicas do."""
    old, new = pair
    forwarder = Forwarder(old.port)
    settings = Settings(namespace="failover", timeout_seconds=20.0)
    store, other = connect(forwarder.url, settings), connect(forwarder.url, settings)
    pushed, found, is_over = [f"t{number}" for number in range(10)], list[str](), threading.Event()

    def work() -> None:
        while not is_over.is_set():
            answered(lambda: wait_for_handoff(store, seconds=60))
            found.extend(ids(answered(lambda: claim(store)) or []))

    working = in_thread(work)
    until(lambda: registrations(old.url, "failover") == 1)
    demote(old, new)
    forwarder.port = new.port
    until(lambda: registrations(new.url, "failover") == 1, seconds=20)
    for number, id in enumerate(pushed):
        other.broker.push([a_push(id)])
        until(lambda number=number: len(set(found)) > number)  # type: ignore[misc]
    is_over.set()
    store.broker.stop_handoff()
    working.result(20)
    assert sorted(found) == pushed
    for each in (store, other):
        each.upkeep.close()
    forwarder.close()


def test_a_plain_command_finds_the_new_primary(pair: tuple[RedisServer, RedisServer]) -> None:
    old, new = pair
    forwarder = Forwarder(old.port)
    store = connect(forwarder.url, Settings(namespace="failover", timeout_seconds=20.0))
    with redis.Redis(port=old.port) as client:
        client.config_set("replica-serve-stale-data", "no")
        client.replicaof("127.0.0.1", 1)  # nobody there: reads are refused as well
    forwarder.port = new.port
    assert store.revokes.version() == 0
    store.upkeep.close()
    forwarder.close()


def test_while_no_primary_is_there_the_store_is_unavailable_and_comes_back(
    pair: tuple[RedisServer, RedisServer],
) -> None:
    old, new = pair
    forwarder = Forwarder(old.port)
    store = connect(forwarder.url, Settings(namespace="failover", timeout_seconds=20.0))
    demote(old, new)
    with pytest.raises(StoreUnavailable, match="is a read-only replica"):
        store.broker.push([a_push("a")])
    forwarder.port = new.port
    store.broker.push([a_push("a")])
    store.upkeep.close()
    forwarder.close()


def test_a_wait_keeps_its_time_though_all_idle_listeners_have_died(forwarder: "Forwarder", namespace: str) -> None:
    store = connect(forwarder.url, Settings(namespace=namespace, timeout_seconds=4.0))

    def waits() -> float:
        hold_ears(store)
        forwarder.freeze(lambda connection: connection.has_listened)
        began = time.monotonic()
        assert not store.broker.wait(["q"], timeout_seconds=1.0)
        waited = time.monotonic() - began
        assert waited >= 0.9
        return waited

    takes_less_than(1.8, waits)
    store.upkeep.close()


def test_a_push_is_heard_though_all_idle_listeners_have_died(forwarder: "Forwarder", namespace: str) -> None:
    store = connect(forwarder.url, Settings(namespace=namespace, timeout_seconds=3.0))
    hold_ears(store)
    forwarder.freeze(lambda connection: connection.has_listened)
    waiter = in_thread(lambda: store.broker.wait(["q"], timeout_seconds=20.0))
    until(lambda: forwarder.count(lambda each: each.has_listened and not each.is_frozen) == 1)
    store.broker.push([a_push(queue="q")])
    assert waiter.result(30)
    store.upkeep.close()


def test_one_call_past_its_deadline_is_enough_to_drop_all_idle_connections(
    forwarder: "Forwarder", namespace: str
) -> None:
    store = connect(forwarder.url, Settings(namespace=namespace, timeout_seconds=1.5))
    hold_ears(store)
    forwarder.freeze(lambda connection: True)
    with pytest.raises(StoreUnavailable, match="did not answer"):
        store.broker.push([a_push("a")])
    until(lambda: answered(lambda: store.broker.push([a_push("b")])))
    assert not store.broker.wait(["q"], timeout_seconds=0.1)
    assert forwarder.count(lambda connection: connection.is_asked_in_vain) == 1
    store.upkeep.close()


def demote(old: RedisServer, new: RedisServer) -> None:
    """As a managed failover does it: the replica is caught up, then the two change places."""
    with redis.Redis(port=old.port) as first, redis.Redis(port=new.port) as second:
        second.replicaof("127.0.0.1", old.port)
        until(lambda: second.info("replication")["master_link_status"] == "up", seconds=20)
        until(
            lambda: first.info("replication")["master_repl_offset"] == second.info("replication")["slave_repl_offset"]
        )
        second.replicaof("NO", "ONE")
        first.replicaof("127.0.0.1", new.port)


def hold_ears(store: Store) -> None:
    """So many waits at once that as many listeners are left idle."""
    waits = [threading.Thread(target=lambda: store.broker.wait(["q"], timeout_seconds=0.5)) for _ in range(EARS)]
    for wait in waits:
        wait.start()
    for wait in waits:
        wait.join()


class Forwarder:
    """A loopback port in front of a server: `port` says where the next connection goes; a frozen one says no more."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[_Forwarded] = []
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def freeze(self, which: Callable[["_Forwarded"], bool]) -> None:
        for connection in list(self._connections):
            if which(connection):
                connection.is_frozen = True

    def count(self, which: Callable[["_Forwarded"], bool]) -> int:
        return sum(which(connection) for connection in list(self._connections))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        for connection in self._connections:
            connection.close()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(_Forwarded(caller, self.port))


class _Forwarded:
    def __init__(self, caller: socket.socket, port: int) -> None:
        self.is_frozen = False
        self.is_asked_in_vain = False
        self.has_listened = False
        self._caller = caller
        self._server = socket.create_connection(("127.0.0.1", port))
        self._carrier = threading.Thread(target=self._carry, daemon=True)
        self._carrier.start()

    def close(self) -> None:
        """Both ends are told; the thread that carries then ends and frees them."""
        for end in (self._caller, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._carrier.join(5)

    def _carry(self) -> None:
        with self._caller, self._server, suppress(OSError):
            while True:
                for source in select.select([self._caller, self._server], [], [])[0]:
                    carried = source.recv(65536)
                    if not carried:
                        return
                    self.has_listened |= b"SUBSCRIBE" in carried
                    is_question = source is self._caller and b"UNSUBSCRIBE" not in carried
                    self.is_asked_in_vain |= self.is_frozen and is_question
                    if not self.is_frozen:
                        (self._server if source is self._caller else self._caller).sendall(carried)
