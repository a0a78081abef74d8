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
from stem.core.config import Retention, Settings
from stem.core.delivery import DeadFilter
from stem.core.lifecycle import State
from stem.core.record import TaskFilter
from support.asking import WORKER, claim, claim_one, dead_ids, depth, ids, record, state
from support.builders import a_push, done
from support.servers import PostgresServer, RedisServer

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
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        connection.execute((version / "postgres.sql").read_bytes())
    return f"{server.url}&schema={SCHEMA}"
