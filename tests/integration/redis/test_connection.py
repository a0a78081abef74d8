"""What a Redis store does when the server is missing, locked, old, frozen, full, read-only or restarted."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stem.backends import connect
from stem.backends.redis.connection.server_info import is_new_enough
from stem.contracts.store import Store
from stem.core.errors import ConfigError, StoreRefused, StoreUnavailable
from stem.core.settings.app import Settings
from support.background import takes_less_than
from support.builders import a_push
from support.servers import RedisServer, free_port
from support.stores.calls import answered
from support.until import until

OURS = Settings(namespace="connection", timeout_seconds=20.0)
QUICK = Settings(namespace="connection", timeout_seconds=0.5)  # where the deadline is what it is about


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def locked_server() -> Iterator[RedisServer]:
    server = RedisServer(
        "--requirepass", "correct-horse", "--user", "guest", "on", ">guest", "~*", "&*", "+@all", "-zadd"
    )
    yield server
    server.close()


def test_a_wrong_password_is_refused_in_one_sentence_without_it(locked_server: RedisServer) -> None:
    url = locked_server.url.replace("redis://", "redis://:battery-staple@")
    with pytest.raises(StoreRefused, match=r"password; correct them in the URL\.$") as refusal:
        connect(url, OURS)
    assert "battery-staple" not in str(refusal.value)
    assert "***" in str(refusal.value)


def test_a_missing_password_is_asked_for(locked_server: RedisServer) -> None:
    with pytest.raises(StoreRefused, match="asks for a password"):
        connect(locked_server.url, OURS)


def test_the_right_password_opens_and_stays_out_of_the_stores_url(locked_server: RedisServer) -> None:
    store = connect(locked_server.url.replace("redis://", "redis://:correct-horse@"), OURS)
    assert "correct-horse" not in store.url
    assert store.upkeep.now() == pytest.approx(time.time(), abs=5)
    store.upkeep.close()


def test_a_user_without_the_rights_is_told_so(locked_server: RedisServer) -> None:
    store = connect(locked_server.url.replace("redis://", "redis://guest:guest@"), OURS)
    with pytest.raises(StoreRefused, match="extend the user's ACL"):
        store.broker.push([a_push("a")])
    store.upkeep.close()


def test_a_port_where_nobody_listens_is_unavailable_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        connect(f"redis://127.0.0.1:{free_port()}", OURS)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "url", ["redis://", "redis://host:port", "redis://host/tasks", "redis://:secret@host/0?retry=yes", "rediss:///0"]
)
def test_a_malformed_url_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigError, match="is not a Redis URL") as refusal:
        connect(url, OURS)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [("5.0.14", False), ("6.0.20", False), ("6.2.0", True), ("7.4.1", True), ("10.0", True), ("", False), ("x", False)],
)
def test_servers_before_6_2_are_too_old(version: str, is_enough: bool) -> None:
    assert is_new_enough(version) is is_enough


def test_an_old_server_is_refused_with_its_version() -> None:
    with answering(b"redis_version:5.0.14\r\n") as port:
        with pytest.raises(StoreRefused, match=r"has version 5\.0\.14 and Stem needs 6\.2 or later; upgrade"):
            connect(f"redis://127.0.0.1:{port}", OURS)


def test_a_call_to_a_frozen_server_ends_at_its_deadline_and_works_once_it_thaws(own_server: RedisServer) -> None:
    store = until(lambda: answered(lambda: connect(own_server.url, QUICK)))
    assert own_server.process is not None
    own_server.process.send_signal(signal.SIGSTOP)
    try:

        def refused() -> float:
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match=r"did not answer within 0\.5 s"):
                store.broker.push([a_push("a")])
            with pytest.raises(StoreUnavailable):
                connect(own_server.url, QUICK)
            return at_least(0.5, time.monotonic() - began)

        takes_less_than(3, refused)
    finally:
        own_server.process.send_signal(signal.SIGCONT)
    until(lambda: answered(lambda: store.broker.push([a_push("b")])))
    until(lambda: answered(lambda: store.results.get(["b"])["b"]))
    store.upkeep.close()


def at_least(least: float, seconds: float) -> float:
    assert seconds >= least
    return seconds


def test_waiting_for_a_result_keeps_its_time_while_the_server_is_frozen(own_server: RedisServer) -> None:
    store = connect(own_server.url, Settings(namespace="connection", timeout_seconds=5))
    assert own_server.process is not None
    own_server.process.send_signal(signal.SIGSTOP)
    try:
        takes_less_than(2, lambda: waited_in_vain(store))
    finally:
        own_server.process.send_signal(signal.SIGCONT)
    store.upkeep.close()


def test_waiting_for_a_result_keeps_its_time_while_the_server_is_gone(own_server: RedisServer) -> None:
    store = until(lambda: answered(lambda: connect(own_server.url, QUICK)))
    own_server.kill()
    takes_less_than(2, lambda: waited_in_vain(store))
    store.upkeep.close()


def waited_in_vain(store: Store) -> float:
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        store.results.wait(["a"], timeout_seconds=1.0)
    return at_least(0.9, time.monotonic() - began)


def test_after_a_restart_the_next_call_works_and_nothing_is_lost(own_server: RedisServer) -> None:
    store = connect(own_server.url, OURS)
    store.broker.push([a_push("a")])
    assert not store.broker.wait(["elsewhere"], timeout_seconds=0.01)
    own_server.kill(signal.SIGTERM)
    own_server.start()
    (delivery,) = store.broker.claim(["default"], limit=10, lease_seconds=30)
    assert delivery.lease.id == "a"
    assert not store.broker.wait(["elsewhere"], timeout_seconds=0.01)
    store.upkeep.close()


def test_a_forked_child_uses_connections_of_its_own(own_server: RedisServer) -> None:
    store = connect(own_server.url, OURS)
    store.broker.push([a_push("a")])
    pid = os.fork()
    if pid == 0:
        try:
            store.broker.push([a_push("b")])
            os._exit(0)
        finally:
            os._exit(1)
    for _ in range(100):
        assert "a" in store.results.get(["a"])
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert "b" in store.results.get(["b"])
    store.upkeep.close()


def test_a_full_server_refuses_and_stores_nothing(own_server: RedisServer) -> None:
    store = connect(own_server.url, OURS)
    tell(own_server, "CONFIG SET maxmemory 1")
    with pytest.raises(StoreRefused, match="is full; raise its maxmemory"):
        store.broker.push([a_push("a"), a_push("b")])
    tell(own_server, "CONFIG SET maxmemory 0")
    assert store.results.get(["a", "b"]) == {}
    assert store.broker.depth() == {}
    store.upkeep.close()


def test_a_replica_refuses_changes(own_server: RedisServer) -> None:
    store = connect(own_server.url, OURS)
    tell(own_server, f"REPLICAOF 127.0.0.1 {free_port()}")
    with pytest.raises(StoreUnavailable, match=r"is a read-only replica; .* point the URL at the primary"):
        store.broker.push([a_push("a")])
    store.upkeep.close()


def test_a_namespace_whose_keys_are_anothers_is_refused(own_server: RedisServer) -> None:
    tell(own_server, "SET stem:{connection}:numbers 1")
    with pytest.raises(StoreRefused, match="not Stem's; choose another STEM_NAMESPACE"):
        connect(own_server.url, OURS)


def test_keys_of_a_newer_stem_are_left_alone(own_server: RedisServer) -> None:
    tell(own_server, "HSET stem:{connection}:numbers schema 2")
    with pytest.raises(StoreRefused, match="written by a newer Stem"):
        connect(own_server.url, OURS)


def test_a_transaction_cannot_be_joined(own_server: RedisServer) -> None:
    store = connect(own_server.url, OURS)
    with pytest.raises(ConfigError, match="cannot join a transaction"):
        store.broker.push([a_push("a")], connection=object())
    store.upkeep.close()


def test_diagnose_warns_of_eviction_and_of_missing_persistence(own_server: RedisServer) -> None:
    store = connect(own_server.url, OURS)
    healthy = store.upkeep.diagnose()
    assert (healthy.backend, healthy.warnings) == ("redis", [])
    assert "Redis 6.2" in healthy.server
    until(lambda: 0 < store.upkeep.diagnose().latency_seconds < 0.5)
    tell(own_server, "CONFIG SET maxmemory-policy allkeys-lru")
    tell(own_server, "CONFIG SET appendonly no")
    eviction, persistence = store.upkeep.diagnose().warnings
    assert "allkeys-lru" in eviction and "noeviction" in eviction
    assert "memory only" in persistence and "appendonly yes" in persistence
    store.upkeep.close()


def test_diagnose_warns_of_snapshots_alone(own_server: RedisServer) -> None:
    store = connect(own_server.url, OURS)
    tell(own_server, "CONFIG SET appendonly no")
    tell(own_server, 'CONFIG SET save "60 1"')
    (persistence,) = store.upkeep.diagnose().warnings
    assert "since its last snapshot" in persistence and "appendonly yes" in persistence
    store.upkeep.close()


def test_waiting_on_no_queue_at_all_sleeps_until_the_time_is_up(own_server: RedisServer) -> None:
    store = connect(own_server.url, OURS)

    def sleeps() -> float:
        began = time.monotonic()
        assert not store.broker.wait([], timeout_seconds=0.3)
        return at_least(0.3, time.monotonic() - began)

    takes_less_than(1.0, sleeps)
    assert not store.broker.wait(["default"], timeout_seconds=0.01)
    store.upkeep.close()


def test_a_closed_store_says_so_and_does_not_connect_again(own_server: RedisServer) -> None:
    store = connect(own_server.url, OURS)
    store.broker.push([a_push("a")])
    store.upkeep.close()
    for use in (
        lambda: store.broker.push([a_push("b")]),
        lambda: store.broker.wait(["default"], timeout_seconds=1.0),
        lambda: store.results.wait(["b"], timeout_seconds=1.0),
        store.upkeep.now,
    ):
        with pytest.raises(StoreUnavailable, match=r"has been closed; connect to it again\.$"):
            use()
    fresh = connect(own_server.url, OURS)
    assert set(fresh.results.get(["a", "b"])) == {"a"}
    fresh.upkeep.close()


def tell(server: RedisServer, command: str) -> None:
    """One inline command, past the store."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as plain:
        plain.sendall(command.encode() + b"\r\n")
        assert plain.recv(1024)[:1] != b"-"


@contextmanager
def answering(reply: bytes) -> Iterator[int]:
    """A port that gives one answer to whatever it is asked: servers as old as that are not to be had."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        caller, _ = listener.accept()
        with caller:
            while caller.recv(4096):
                caller.sendall(b"$%d\r\n%s\r\n" % (len(reply), reply))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    thread.join(5)
    listener.close()
