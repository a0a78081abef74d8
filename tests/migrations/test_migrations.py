"""A store that an earlier version wrote opens with today's code, has lost nothing, and drains."""

import base64
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import redis

from migrations.write_stores import NAMESPACE, SCHEMA
from stem.backends import connect
from stem.contracts.staging import Part
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter
from stem.core.envelope import Supersedes, Unique
from stem.core.lifecycle import State
from stem.core.record import TaskFilter
from stem.core.settings.app import Retention, Settings
from support.builders import a_push, done
from support.servers import PostgresServer, RedisServer
from support.stores.calls import WORKER, claim, claim_one, dead_ids, depth, ids, record, state
from support.until import until

VERSIONS = sorted(folder for folder in (Path(__file__).parent / "stores").iterdir() if folder.is_dir())
FOR_EVER = Retention(results_seconds=100 * 365 * 86400.0, events_seconds=100 * 365 * 86400.0)
WAITING = {"queued", "large", "delayed", "unique", "revoked", "promoted", "retried"}


@pytest.fixture(params=VERSIONS, ids=lambda folder: folder.name)
def version(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def url(request: pytest.FixtureRequest, version: Path, tmp_path: Path) -> str:
    match request.param:
        case "sqlite":
            return restored_file(version, tmp_path / "stem.db")
        case "redis":
            return restored_keys(version, request.getfixturevalue("redis_server"))
        case _:
            return restored_schema(version, request.getfixturevalue("postgres_server"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = connect(url, Settings(namespace=NAMESPACE, retention=FOR_EVER))
    yield opened
    opened.upkeep.close()


def test_all_that_was_there_is_there(store: Store) -> None:
    records = {each.id: each for each in store.results.page(TaskFilter(), limit=100).items}
    assert {id for id, each in records.items() if each.state in (State.QUEUED, State.RETRIED)} == WAITING
    assert {id: records[id].state for id in ("leased", "finished", "dead")} == {
        "leased": State.RUNNING,
        "finished": State.SUCCEEDED,
        "dead": State.FAILED,
    }
    assert (records["finished"].result(), records["retried"].attempt) == ({"x": [1, 2]}, 1)
    assert records["queued"].meta == {"order": 7}
    letter = store.deadletters.get("dead")
    assert letter is not None
    assert (letter.reason, letter.error and letter.error.type, letter.worker) == (
        "retries-exhausted",
        "ValueError",
        "gone",
    )
    assert store.revokes.get(["revoked"])["revoked"].reason == "mistaken"
    assert store.broker.push([a_push("other", unique="k")])[0].id == "unique"
    promotion = store.staging.promoted("whole")
    assert promotion is not None and promotion.created == 1


def test_all_of_it_drains(store: Store, url: str) -> None:
    if not url.startswith("sqlite"):
        assert store.staging.promote("half", [Part("part", 1)]).created == 1
    assert store.broker.cancel(["revoked"]) == ["revoked"]
    assert store.broker.reclaim().returned == ["leased"]
    assert store.deadletters.replay(DeadFilter()) == ["dead"]
    assert record(store, "dead").meta["replayCount"] == 1
    store.broker.push([a_push("new")])
    first = claim_one(store)
    assert first.lease.id == "queued"
    rest = claim(store)
    assert len(next(each for each in rest if each.lease.id == "large").envelope.arguments()["text"]) == 2000
    assert {each.lease.id: each.deaths for each in rest}["leased"] == 1
    assert store.broker.settle([done(each) for each in (first, *rest)], worker=WORKER) == []
    staged = set() if url.startswith("sqlite") else {"staged"}
    expected = (WAITING | {"leased", "dead", "new"} | staged) - {"revoked"}
    assert {first.lease.id, *ids(rest)} == expected
    assert {state(store, id) for id in expected} == {State.SUCCEEDED}
    assert (depth(store).ready, depth(store).delayed, depth(store).running, dead_ids(store)) == (0, 0, 0, [])
    assert store.broker.push([a_push("other", unique="k")])[0].created


def test_tasks_of_an_earlier_version_are_waited_for_and_superseded(version: Path, tmp_path: Path) -> None:
    store = connect(restored_file(version, tmp_path / "stem.db"), Settings(namespace=NAMESPACE, retention=FOR_EVER))
    try:
        key = Unique("k", supersedes=Supersedes.WAITING, max_delay_seconds=0.0)
        (receipt,) = store.broker.push([a_push("newer", unique=key, delay=3600, queue="new")])
        assert (receipt.created, receipt.superseded, state(store, "unique")) == (True, "unique", State.CANCELLED)
        names = ["queued", "leased", "finished", "dead", "newer"]
        store.broker.push([a_push(f"after-{each}", after=[each], queue="new") for each in names])
        assert ids(claim(store, "new")) == ["newer", "after-finished"]
        assert state(store, "after-dead") is State.CANCELLED
        assert store.broker.settle([done(each) for each in claim(store)], worker=WORKER) == []
        assert ids(claim(store, "new")) == ["after-queued"]
    finally:
        store.upkeep.close()


def test_new_tasks_wait_for_those_that_were_there(store: Store) -> None:
    store.broker.push(
        [
            a_push("after-all", after=["queued", "large", "finished"]),
            a_push("after-dead", after=["dead"]),
            a_push("after-end", after=["finished"], queue="other"),
        ]
    )
    assert ids(claim(store, "other")) == ["after-end"]
    assert (state(store, "after-all"), state(store, "after-dead")) == (State.QUEUED, State.CANCELLED)
    store.deadletters.replay(DeadFilter())
    store.broker.settle([done(each) for each in claim(store)], worker=WORKER)
    assert {"after-all", "after-dead"} <= set(ids(claim(store)))


CHILD_TABLES = Path(__file__).parent / "stores" / "92c331f" / "postgres_child_tables.sql"


def test_tasks_in_child_tables_move_into_the_plain_ones(postgres_server: PostgresServer) -> None:
    url = restored_dump(CHILD_TABLES, postgres_server)
    store = connect(url, Settings(namespace=NAMESPACE, retention=FOR_EVER))
    try:
        waiting = {f"{part}{number}" for part in "ab" for number in range(5)} - {"a1"}
        tasks = {each.id: each for each in store.results.page(TaskFilter(), limit=100).items}
        assert set(tasks) == waiting | {"plain", "a1"}
        assert (tasks["a1"].result(), tasks["a0"].state, tasks["plain"].attempt) == (7, State.RUNNING, 1)
        told = logged(postgres_server)  # readers see those only whose transaction numbers this server has reached
        assert [id for id, kind in told if kind == "enqueued"] == ["plain", *sorted({*waiting, "a1"})]
        assert len(told) == 11 + 5
        promotion = store.staging.promoted("large")
        assert promotion is not None and promotion.created == 10
        assert [each.created for each in store.broker.push([a_push("b3"), a_push("a1"), a_push("new")])] == [
            False,
            False,
            True,
        ]
        assert store.staging.promote("open", [Part("c", 4)]).created == 4
        assert store.broker.reclaim().returned == ["a0"]
        until(lambda: depth(store).delayed == 0)
        got = claim(store)
        assert sorted(ids(got)) == sorted({*waiting, "plain", "new", "c0", "c1", "c2", "c3"})
        assert [id for id in ids(got) if id.startswith("c")] == ["c0", "c1", "c2", "c3"]
        assert store.broker.settle([done(each) for each in got], worker=WORKER) == []
    finally:
        store.upkeep.close()
    with psycopg.connect(postgres_server.url) as connection:
        query = "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r'"
        tables = {name for (name,) in connection.execute(query, [SCHEMA]).fetchall()}
        assert not {name for name in tables if name.startswith(("messages_", "events_", "stage_parts", "staged_"))}


def logged(server: PostgresServer) -> list[tuple[str, str]]:
    with psycopg.connect(server.url) as connection:
        return connection.execute(f"SELECT task_id, kind FROM {SCHEMA}.events ORDER BY txid, n").fetchall()


def test_a_process_of_an_earlier_version_goes_on_pushing(postgres_server: PostgresServer) -> None:
    """Workers are upgraded first, and the first of them migrates the store under the senders."""
    store = connect(restored_schema(VERSIONS[-1], postgres_server), Settings(namespace=NAMESPACE))
    several = "%s, %s, 'demo.add', 'old', '5', '', '', '', '', '', '', '{}'"
    calls = {
        "one": "push_one(%s, %s, 'demo.add', 'old', 5, NULL, NULL, NULL, NULL, NULL, NULL, '{}', NULL, NULL, NULL)",
        "some": f"push({several})",
        "unique": f"push_unique({several}, '\"key\"', '')",
    }
    try:
        with psycopg.connect(postgres_server.url, autocommit=True) as connection:
            for id, call in calls.items():
                connection.execute(f"SELECT * FROM {SCHEMA}.{call}".encode(), [NAMESPACE, f"old-{id}"])
        assert ids(claim(store, "old")) == [f"old-{id}" for id in calls]
    finally:
        store.upkeep.close()


def test_a_worker_of_an_earlier_version_goes_on_claiming(postgres_server: PostgresServer) -> None:
    """It calls functions by the names, and reads the columns, that it knows."""
    store = connect(restored_schema(VERSIONS[-1], postgres_server), Settings(namespace=NAMESPACE))
    try:
        store.broker.push([a_push("a", queue="old"), a_push("b", queue="old", priority=9)])
        with psycopg.connect(postgres_server.url, autocommit=True) as connection:
            claim_two = f"SELECT * FROM {SCHEMA}.claim(%s, ARRAY['old'], 2, 60)"
            rows = connection.execute(claim_two.encode(), [NAMESPACE]).fetchall()
            assert [(len(row), row[0], row[2], row[3]) for row in rows] == [
                (7, "b", "demo.add", "old"),
                (7, "a", "demo.add", "old"),
            ]
            (empty,) = connection.execute(claim_two.encode(), [NAMESPACE]).fetchall()
            assert empty == (None,) * 7
    finally:
        store.upkeep.close()


def test_a_process_of_an_earlier_version_goes_on_settling(postgres_server: PostgresServer) -> None:
    store = connect(restored_schema(VERSIONS[-1], postgres_server), Settings(namespace=NAMESPACE))
    store.broker.push([a_push("a", queue="new"), a_push("b", queue="new"), a_push("c", queue="new", after=["a", "b"])])
    a, b = claim(store, "new")
    try:
        with psycopg.connect(postgres_server.url, autocommit=True) as connection:
            query = f"SELECT * FROM {SCHEMA}.settle_done(%s, 'old', %s, %s, '', 'null', '', '')"
            held = connection.execute(query.encode(), [NAMESPACE, a.lease.id, str(a.lease.fence)]).fetchall()
            assert held == [(None,)]
            query = f"SELECT * FROM {SCHEMA}.settle(%s, 'old', %s, %s, '', 'null', '', '', 'D', '', '', '', '', '{{}}')"
            held = connection.execute(query.encode(), [NAMESPACE, b.lease.id, str(b.lease.fence)]).fetchall()
            assert held == [(None,)]
        assert ids(claim(store, "new")) == ["c"]
    finally:
        store.upkeep.close()


def test_roles_that_used_a_store_may_use_its_new_tables(postgres_server: PostgresServer) -> None:
    oldest = VERSIONS[0]
    url = restored_schema(oldest, postgres_server)
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS old_guest")
        connection.execute("CREATE ROLE old_guest LOGIN")
        try:
            connection.execute(f"GRANT SELECT, INSERT ON {SCHEMA}.messages TO old_guest")
            connect(url, Settings(namespace=NAMESPACE)).upkeep.close()
            query = (
                "SELECT has_table_privilege('old_guest', %s, 'INSERT'), has_table_privilege('old_guest', %s, 'DELETE')"
            )
            for table in ("holders", "lost", "watch"):
                assert connection.execute(query, [f"{SCHEMA}.{table}"] * 2).fetchone() == (True, False), table
            assert connection.execute(query, [f"{SCHEMA}.records"] * 2).fetchone() == (False, False)
        finally:
            connection.execute("DROP OWNED BY old_guest")
            connection.execute("DROP ROLE old_guest")


def restored_file(version: Path, file: Path) -> str:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript((version / "sqlite.sql").read_text())
    return f"sqlite:///{file}"


def restored_keys(version: Path, server: RedisServer) -> str:
    with redis.Redis(port=server.port) as client:
        for key in client.scan_iter(match=f"stem:{{{NAMESPACE}}}:*"):
            client.delete(key)
        for key, dumped in json.loads((version / "redis.json").read_text()).items():
            client.restore(key, 0, base64.b64decode(dumped))
    return server.url


def restored_schema(version: Path, server: PostgresServer) -> str:
    return restored_dump(version / "postgres.sql", server)


def restored_dump(dump: Path, server: PostgresServer) -> str:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        connection.execute(dump.read_bytes())
    return f"{server.url}&schema={SCHEMA}"
