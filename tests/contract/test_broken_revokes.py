"""One forged or broken mark must not keep a worker from the others: written by hand on each store, and in the file."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conftest import BACKENDS, url_of
from stem.client.stores import RevokeStore
from stem.control.sealing import Trust
from stem.core.delivery import Delivery, Lease
from stem.core.outcome import Requeue
from stem.core.revoke import RevokeRequest
from stem.runtime.keys import Keyring
from stem.worker.admission.revoke_follower import RevokeFollower
from support.stores.revoke_stores import open_revokes

AT = "2026-01-01T00:00:00Z"


@pytest.fixture(params=(*BACKENDS[1:], "file"))
def at(request: pytest.FixtureRequest, tmp_path: Path, namespace: str) -> Iterator[RevokeStore]:
    url = f"file://{tmp_path}/revokes.stem" if request.param == "file" else url_of(request.param, request, tmp_path)
    opened = open_revokes(url, namespace)
    yield opened
    opened.close()


def break_sqlite(path: str) -> None:
    def mark(id: str, version: object, **more: object) -> bytes:
        return msgspec.json.encode({"taskId": id, "version": version, "createdAt": AT, **more})

    rows: list[tuple[object, ...]] = [
        ("behind", 1000, None, mark("behind", 0)),
        ("torn", 1001, None, b"{"),
        ("text", 1002, None, "no JSON"),
        ("naive", 1003, None, mark("naive", 1003, expiresAt="2090-01-01T00:00:00")),
        ("deep", 1004, None, b"[" * 100_000),
        (b"bytes", 1005, None, mark("bytes", 1005)),
        ("when", 1006, "soon", mark("when", 1006)),
        ("version", "last", None, mark("version", 7)),
    ]
    with sqlite3.connect(path, timeout=30) as raw:
        (ns,) = raw.execute("SELECT ns FROM stem_revokes").fetchone()
        insert = "INSERT INTO stem_revokes (ns, task_id, version, expires_at, record) VALUES (?, ?, ?, ?, ?)"
        raw.executemany(insert, [(ns, *row) for row in rows])
        raw.execute("UPDATE stem_numbers SET value = 1006 WHERE name = 'revoke'")


def break_redis(url: str, namespace: str) -> None:
    import redis

    raw: Any = redis.Redis.from_url(url)
    prefix = f"stem:{{{namespace}}}:"

    def mark(id: str, version: object, **more: object) -> bytes:
        fields = {"task": id, "reason": "", "requester": "", "terminate": False, "version": version, "created": 0}
        return msgspec.msgpack.encode({**fields, **more})

    rows: list[tuple[str, float, bytes]] = [
        ("behind", 1000, mark("behind", 0)),
        ("torn", 1001, b"\x85\xa4"),
        ("number", 1002, b"\x01"),
        ("when", 1003, mark("when", 1003, expires=1e30)),
        ("never", 1004, mark("never", 1004, expires="soon")),
        ("created", 1005, mark("created", 1005, created=2**62)),
    ]
    for id, version, packed in rows:
        raw.hset(f"{prefix}revokes", id, packed)
        raw.zadd(f"{prefix}revokes:versions", {id: version})
    raw.hset(f"{prefix}numbers", "revoke", 1005)


def break_postgres(url: str, namespace: str) -> None:
    import psycopg

    rows: list[tuple[object, ...]] = [
        ("torn", 1001, 0.0, None, "{"),
        ("when", 1002, 0.0, float("inf"), '{"taskId":"when"}'),
        ("created", 1003, float("nan"), None, '{"taskId":"created"}'),
    ]
    with psycopg.connect(url, autocommit=True) as raw:
        for row in rows:
            raw.execute("INSERT INTO stem.revokes VALUES (%s, %s, %s, %s, %s, %s)", (namespace, *row))
        raw.execute("UPDATE stem.revoke_versions SET version = 1003 WHERE ns = %s", (namespace,))


def break_file(path: str, namespace: str) -> None:
    ahead = f'{{"namespace":"{namespace}","version":1000,"taskId":"'
    with open(path, "a") as file:
        file.write(f'{ahead}naive","createdAt":"{AT}","expiresAt":"2090-01-01T00:00:00"}}\n')
        file.write(f'{ahead.replace("1000", "0")}behind","createdAt":"{AT}"}}\n')
        file.write(f'{ahead}deep","x":{"[" * 100_000}\n')


def break_some(at: RevokeStore, namespace: str) -> None:
    scheme, _, rest = at.url.partition("://")
    match scheme:
        case "sqlite":
            break_sqlite(rest.removeprefix("/"))
        case "redis":
            break_redis(at.url, namespace)
        case "file":
            break_file(rest, namespace)
        case _:
            break_postgres(at.url, namespace)


@pytest.fixture(params=[True, False], ids=["signed", "unsigned"])
def caller(request: pytest.FixtureRequest) -> Keyring:
    return Keyring.parse("ops:hmac-sha256:" + "b3Bz" * 8) if request.param else Keyring({})


def revoke(at: RevokeStore, keys: Keyring, namespace: str, id: str) -> None:
    from stem.backends.memory import connect
    from stem.control.caller import Caller
    from stem.control.revoking import revoke
    from stem.core.settings.app import Settings

    desk = connect(f"memory://{namespace}", Settings(namespace=namespace))
    revoke(at.revokes, Caller(desk, keys), [RevokeRequest(task_id=id)])
    desk.upkeep.close()


@pytest.mark.timeout(60)
def test_broken_marks_are_passed_over_and_others_followed(
    at: RevokeStore, caller: Keyring, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stem.worker.admission.revoke_cache._PAGE", 2)  # a page full of them does not look like the end
    revoke(at, caller, namespace, "before")
    marks = RevokeFollower(at, ["default"], "w1", Trust(caller, namespace))
    marks.load()
    break_some(at, namespace)
    revoke(at, caller, namespace, "after")
    marks.refresh()
    marks.refresh()
    fresh = RevokeFollower(at, ["default"], "w2", Trust(caller, namespace))
    fresh.load()
    for each in (marks, fresh):
        _, endings = each.admit([Delivery(Lease(id, 1), "t", "default", 0, 0, b"{}") for id in ("before", "after")])
        assert [ending.lease.id for _, ending in endings] == ["before", "after"]
        each.records_for(["torn", "naive", "when", "created", "behind"])
        each.revoked.ids(100)
    at.revokes.get(["torn", "naive", "when", "created", "behind"])
    at.revokes.prune()
    assert "after" in at.revokes.get(["after"])


def test_an_error_that_nobody_foresaw_leaves_the_task_undecided(
    at: RevokeStore, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stem.worker.admission.revoke_cache.VERIFY_AT_ONCE", 0)
    keys = Keyring.parse("ops:hmac-sha256:" + "b3Bz" * 8)
    revoke(at, keys, namespace, "a")
    marks = RevokeFollower(at, ["default"], "w1", Trust(keys, namespace))
    marks.load()

    def fail(_ids: object) -> None:
        raise TypeError("nobody foresaw it")

    monkeypatch.setattr(at.revokes, "get", fail)
    rest, endings = marks.admit([Delivery(Lease(id, 1), "t", "default", 0, 0, b"{}") for id in ("a", "b")])
    assert [each.lease.id for each in rest] == ["b"]
    ((_, ending),) = endings
    assert ending.lease.id == "a" and isinstance(ending.settlement, Requeue)
