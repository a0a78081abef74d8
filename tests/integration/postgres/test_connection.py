"""What a Postgres store does when the server is missing, locked, frozen, read-only, restarted or not ours."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import PurePath
from typing import Any
from unittest.mock import PropertyMock, patch
from urllib.parse import quote

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from stem.backends import connect
from stem.backends.postgres.connection.address import address
from stem.backends.postgres.statements import VERSION
from stem.core.delivery import Lease
from stem.core.errors import ConfigError, StoreRefused, StoreUnavailable, UsageError
from stem.core.record import TaskError
from stem.core.settings.app import Settings, Tls
from support.background import takes_less_than
from support.builders import a_push, dead, done
from support.servers import PostgresServer, free_port
from support.stores.calls import answered, claim_one, depth, record
from support.until import until

OURS = Settings(namespace="connection", timeout_seconds=30.0)
QUICK = Settings(namespace="connection", timeout_seconds=1.0)  # where the deadline is what it is about


@pytest.fixture(scope="module")
def locked_server() -> Iterator[PostgresServer]:
    server = PostgresServer(listens=True)
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("CREATE ROLE owner LOGIN PASSWORD 'correct-horse'")
        admin.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
        admin.execute("CREATE DATABASE ours OWNER owner")
    yield server
    server.close()


def test_a_wrong_password_is_refused_in_one_sentence_without_it(locked_server: PostgresServer) -> None:
    with pytest.raises(StoreRefused, match=r"check user, password and database in the URL\.$") as refusal:
        connect(locked_server.tcp_url("owner", "battery-staple", "ours"), OURS)
    assert "battery-staple" not in str(refusal.value)
    assert "***" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_an_unknown_database_is_refused(locked_server: PostgresServer) -> None:
    with pytest.raises(StoreRefused, match="nowhere"):
        connect(locked_server.tcp_url("owner", "correct-horse", "nowhere"), OURS)


def test_the_right_password_opens_and_stays_out_of_the_stores_url(locked_server: PostgresServer) -> None:
    store = connect(locked_server.tcp_url("owner", "correct-horse", "ours"), OURS)
    assert "correct-horse" not in store.url
    assert store.upkeep.now() == pytest.approx(time.time(), abs=5)
    store.upkeep.close()


def test_a_password_among_the_parameters_is_masked(locked_server: PostgresServer) -> None:
    url = f"postgresql://127.0.0.1:{locked_server.port}/ours?user=owner&password=correct-horse"
    store = connect(url, OURS)
    assert "correct-horse" not in store.url
    store.upkeep.close()


def test_a_role_that_may_not_make_the_schema_is_told_so(locked_server: PostgresServer) -> None:
    with pytest.raises(StoreRefused, match="grant the role CREATE"):
        connect(locked_server.tcp_url("guest", "guest", "ours") + "?schema=elsewhere", OURS)


def test_a_read_only_server_is_told_so(locked_server: PostgresServer) -> None:
    url = locked_server.tcp_url("owner", "correct-horse", "ours")
    connect(url, OURS).upkeep.close()
    alone = Settings(namespace="read-only", timeout_seconds=30.0)
    store = connect(url + "?options=-cdefault_transaction_read_only%3Don", alone)
    with pytest.raises(StoreRefused, match="read-only"):
        store.broker.push([a_push("a")])
    assert depth(store).ready == 0
    store.upkeep.close()


def test_a_schema_of_someone_elses_is_left_alone(locked_server: PostgresServer) -> None:
    url = locked_server.tcp_url("owner", "correct-horse", "ours")
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("CREATE SCHEMA theirs")
        owner.execute("CREATE TABLE theirs.messages (id integer)")
        with pytest.raises(StoreRefused, match="not Stem's"):
            connect(url + "?schema=theirs", OURS)
        (tables,) = owner.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'theirs'").fetchall()[0]
    assert tables == 1


def test_a_newer_schema_is_refused(locked_server: PostgresServer) -> None:
    url = locked_server.tcp_url("owner", "correct-horse", "ours") + "?schema=newer"
    connect(url, OURS).upkeep.close()
    with psycopg.connect(locked_server.tcp_url("owner", "correct-horse", "ours"), autocommit=True) as owner:
        owner.execute("UPDATE newer.version SET version = 1000")
    with pytest.raises(StoreRefused, match="upgrade Stem"):
        connect(url, OURS)


def test_an_older_schema_gets_todays_functions_and_version(locked_server: PostgresServer) -> None:
    url = locked_server.tcp_url("owner", "correct-horse", "ours")
    connect(url + "?schema=older", OURS).upkeep.close()
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("UPDATE older.version SET version = 1")
        owner.execute("CREATE FUNCTION older.claim(text) RETURNS text LANGUAGE sql AS 'SELECT $1'")
        connect(url + "?schema=older", OURS).upkeep.close()
        (version,) = owner.execute("SELECT version FROM older.version").fetchall()
        claims = owner.execute(
            "SELECT count(*) FROM pg_proc WHERE pronamespace = 'older'::regnamespace AND proname = 'claim'"
        )
        assert (version, claims.fetchall()) == ((VERSION,), [(1,)])


def test_a_schema_that_has_lost_its_version_is_refused(locked_server: PostgresServer) -> None:
    url = locked_server.tcp_url("owner", "correct-horse", "ours")
    connect(url + "?schema=nameless", OURS).upkeep.close()
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("DELETE FROM nameless.version")
    with pytest.raises(StoreRefused, match="has lost the row of its table version"):
        connect(url + "?schema=nameless", OURS)


def test_a_database_that_cannot_hold_every_text_is_refused(locked_server: PostgresServer) -> None:
    with psycopg.connect(locked_server.url, autocommit=True) as admin:
        admin.execute("CREATE DATABASE latin OWNER owner ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    with pytest.raises(StoreRefused, match="encoded in LATIN1"):
        connect(locked_server.tcp_url("owner", "correct-horse", "latin"), OURS)


def test_transactions_that_are_not_read_committed_by_default_are_refused(locked_server: PostgresServer) -> None:
    url = locked_server.tcp_url("owner", "correct-horse", "ours")
    strict = url + "?options=-cdefault_transaction_isolation%3Dserializable"
    with pytest.raises(StoreRefused, match='say so: ALTER ROLE "owner" SET default_transaction_isolation'):
        connect(strict, OURS)


def test_an_old_server_is_refused(postgres_server: PostgresServer) -> None:
    with patch("psycopg.ConnectionInfo.server_version", new_callable=PropertyMock, return_value=120004):
        with pytest.raises(StoreRefused, match="version 12 and Stem needs 13 or later; upgrade"):
            connect(postgres_server.url, OURS)


def test_nobody_listening_is_unavailable_at_once() -> None:
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"check that it runs and that the URL is right\.$") as refusal:
        connect(f"postgresql://someone:secret@127.0.0.1:{free_port()}/x", OURS)
    assert time.monotonic() - begun < 15
    assert "secret" not in str(refusal.value)


def test_a_server_that_never_answers_ends_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://someone@127.0.0.1:{silent.getsockname()[1]}/x"
        # libpq counts connection time-outs in whole seconds, from 2
        takes_less_than(4, lambda: refused_after(lambda: connect(url, QUICK)))


def refused_after(call: Callable[[], object], match: str | None = None) -> float:
    """The seconds until the store is said to be unavailable."""
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable, match=match):
        call()
    return time.monotonic() - begun


@pytest.mark.parametrize("schema", ["pg_catalog", 'a"b', "a b", "1st", ""])
def test_a_schema_that_is_no_plain_name_is_a_configuration_error(schema: str) -> None:
    with pytest.raises(ConfigError, match="Schema"):
        connect(f"postgresql://127.0.0.1/x?schema={schema}", OURS)


def test_an_unknown_parameter_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="use postgresql://"):
        connect("postgresql://127.0.0.1/x?color=red", OURS)


@pytest.mark.parametrize("value", ["a b", "a+b", "a&b=c", "50%", "-c x=1"])
def test_parameters_mean_what_libpq_would_read(value: str) -> None:
    given = address(f"postgresql://host/db?application_name={quote(value)}", OURS)
    assert conninfo_to_dict(given.conninfo)["application_name"] == value
    assert quote(value) in given.name


def test_a_url_that_is_none_is_a_configuration_error_without_its_password() -> None:
    with pytest.raises(ConfigError, match="use postgresql://") as refusal:
        address("postgresql://someone:secret@[::1/db", OURS)
    assert "secret" not in str(refusal.value)


def test_half_a_character_is_refused_wherever_it_stands(locked_server: PostgresServer) -> None:
    store = connect(locked_server.tcp_url("owner", "correct-horse", "ours"), OURS)
    half = "\udcff"
    for call in (
        lambda: store.results.get([half]),
        lambda: store.broker.claim([half], limit=1, lease_seconds=1),
        lambda: store.broker.push([a_push("half", headers={"a": half})]),
        lambda: store.broker.push([a_push("half", unique=half)]),
        lambda: store.broker.settle([dead(Lease("half", 1), error=TaskError("E", half))], worker="w"),
        lambda: store.locks.acquire(half, owner="a", ttl_seconds=1),
    ):
        with pytest.raises(UsageError, match="half of a character"):
            call()
    store.upkeep.close()


def test_tls_settings_reach_the_driver_and_the_url_has_the_last_word() -> None:
    ca, cert, key = (PurePath(f"/etc/{name}.pem") for name in ("ca", "cert", "key"))
    strict = Settings(tls=Tls(ca_file=ca, cert_file=cert, key_file=key))
    conninfo = address("postgresql://host/db", strict).conninfo
    for part in ("sslmode=verify-full", "sslrootcert=/etc/ca.pem", "sslcert=/etc/cert.pem", "sslkey=/etc/key.pem"):
        assert part in conninfo
    assert "sslmode=require" in address("postgresql://host/db", Settings(tls=Tls(verify=False))).conninfo
    assert "sslmode=disable" in address("postgresql://host/db?sslmode=disable", strict).conninfo


def test_a_frozen_server_ends_every_call_at_its_deadline(locked_server: PostgresServer) -> None:
    url = locked_server.tcp_url("owner", "correct-horse", "ours")
    store = until(lambda: answered(lambda: connect(url, QUICK)))
    until(lambda: answered(lambda: store.broker.push([a_push("frozen")])))
    locked_server.signal(signal.SIGSTOP)
    try:
        for call in (
            lambda: store.broker.push([a_push()]),
            lambda: store.results.wait(["frozen"], timeout_seconds=0.5),
            lambda: store.broker.wait(["nothing"], timeout_seconds=0.5),
        ):
            takes_less_than(2, lambda: refused_after(call, "did not answer"))  # noqa: B023 - asked before the next one
    finally:
        locked_server.signal(signal.SIGCONT)
    until(lambda: answered(lambda: store.results.get(["frozen"])["frozen"]))
    store.upkeep.close()


def test_after_a_restart_the_next_call_works_and_sleepers_wake(locked_server: PostgresServer) -> None:
    url = locked_server.tcp_url("owner", "correct-horse", "ours")
    store = connect(url, Settings(namespace="restart", timeout_seconds=15))
    store.broker.push([a_push("a")])
    delivery = claim_one(store)
    woken: list[bool] = []

    def sleep() -> None:
        while not woken:
            try:
                woken.append(store.broker.wait(["default"], timeout_seconds=20))
            except StoreUnavailable:
                continue  # while the server is away

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    locked_server.restart()
    assert store.broker.settle([done(delivery)], worker="w") == []
    store.broker.push([a_push("b")])
    sleeper.join(20)
    assert woken == [True]
    assert record(store, "a").is_terminal
    store.upkeep.close()


def test_a_claim_that_a_crash_undoes_is_never_mistaken_for_the_next(locked_server: PostgresServer) -> None:
    with psycopg.connect(locked_server.url, autocommit=True) as admin:
        admin.execute(
            "ALTER SYSTEM SET wal_writer_delay = '10s'"
        )  # so that there is time to crash before a claim is flushed
        admin.execute("SELECT pg_reload_conf()")
    patient = Settings(namespace="crash", timeout_seconds=30.0)
    store = connect(locked_server.tcp_url("owner", "correct-horse", "ours"), patient)
    undone = 0
    for number in range(5):
        store.broker.push([a_push(f"x{number}")])
        first = claim_one(store)
        locked_server.crash()
        undone += depth(store).ready
        if not depth(store).ready:  # it was flushed in time, by whoever else had to be
            assert store.broker.settle([done(first)], worker="w") == []
            continue
        second = claim_one(store)
        assert second.lease.id == first.lease.id and second.lease.fence > first.lease.fence
        assert store.broker.settle([done(first)], worker="late") == [first.lease]
        assert store.broker.settle([done(second)], worker="w") == []
    assert undone, "no crash undid a claim, so nothing was shown"
    assert depth(store).running == 0
    store.upkeep.close()


def test_a_stopped_server_is_unavailable_within_the_deadline(locked_server: PostgresServer) -> None:
    url = locked_server.tcp_url("owner", "correct-horse", "ours")
    store = until(lambda: answered(lambda: connect(url, QUICK)))
    until(lambda: answered(store.upkeep.now))
    locked_server.stop()
    try:
        takes_less_than(2, lambda: refused_after(lambda: store.broker.push([a_push()])))
    finally:
        locked_server.start()
    until(lambda: answered(store.upkeep.now))
    store.upkeep.close()


def test_a_forked_child_opens_connections_of_its_own(postgres_server: PostgresServer, namespace: str) -> None:
    store = connect(postgres_server.url, Settings(namespace=namespace, timeout_seconds=30.0))
    store.broker.push([a_push("parent")])
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # nothing of pytest may run here
        code = 1
        try:
            store.broker.push([a_push("child")])
            os.write(writer, b"pushed")
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert os.read(reader, 10) == b"pushed"
    assert depth(store).ready == 2
    store.upkeep.close()


def test_fifty_processes_make_one_schema(locked_server: PostgresServer) -> None:
    url = locked_server.tcp_url("owner", "correct-horse", "ours") + "?schema=crowd"
    context = get_context("spawn")
    with context.Pool(10) as pool:
        assert sum(pool.map(_push_one, [(url, number) for number in range(50)])) == 50
    store = connect(url, OURS)
    assert depth(store).ready == 50
    store.upkeep.close()


def _push_one(given: tuple[str, int]) -> int:
    url, number = given
    store: Any = connect(url, OURS)
    (receipt,) = store.broker.push([a_push(f"crowd-{number}")])
    store.upkeep.close()
    return int(receipt.created)
