"""Durable, versioned "do not run" marks."""

from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from pathlib import Path

import pytest

from conftest import BACKENDS, url_of
from stem.client.stores import RevokeStore
from stem.core.revoke import RevokeRequest
from support.background import Errand, barrier, together
from support.stores.revoke_stores import open_revokes, revoke_many
from support.until import until

# Besides the stores of tasks, a file can keep revokes.
REVOKE_BACKENDS = (*BACKENDS, "file")


@pytest.fixture(params=REVOKE_BACKENDS)
def revokes_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"file://{tmp_path}/revokes.stem" if request.param == "file" else url_of(request.param, request, tmp_path)


@pytest.fixture
def open_store(revokes_url: str, namespace: str) -> Iterator[Callable[[], RevokeStore]]:
    """Connect once more to the test's store. Closed when the test ends."""
    opened: list[RevokeStore] = []

    def open_one() -> RevokeStore:
        opened.append(open_revokes(revokes_url, namespace))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def store(open_store: Callable[[], RevokeStore]) -> RevokeStore:
    return open_store()


def test_a_mark_is_read_back_whole(store: RevokeStore) -> None:
    assert store.revokes.version() == 0
    request = RevokeRequest(
        task_id="a", reason="ü", requester="ops", terminate=True, signal="SIGTERM", expires_seconds=60
    )
    (mark,) = store.revokes.put([request])
    assert (mark.task_id, mark.reason, mark.requester, mark.terminate, mark.signal) == (
        "a",
        "ü",
        "ops",
        True,
        "SIGTERM",
    )
    assert mark.expires_at is not None
    assert abs((mark.expires_at - mark.created_at).total_seconds() - 60) < 0.01
    assert store.revokes.get(["a", "nobody"]) == {"a": mark}
    assert store.revokes.get([]) == {}
    assert store.revokes.version() == mark.version > 0


def test_versions_grow_and_a_follower_misses_none(store: RevokeStore, open_store: Callable[[], RevokeStore]) -> None:
    first = store.revokes.put([RevokeRequest(task_id=id) for id in "abc"])
    second = open_store().revokes.put([RevokeRequest(task_id="d")])
    versions = [mark.version for mark in [*first, *second]]
    assert versions == sorted(set(versions))
    assert [mark.task_id for mark in store.revokes.since(0, limit=10)] == list("abcd")
    assert [mark.task_id for mark in store.revokes.since(0, limit=2)] == list("ab")
    assert [mark.task_id for mark in store.revokes.since(versions[1], limit=10)] == list("cd")
    assert store.revokes.since(versions[-1], limit=10) == []


def test_a_second_mark_replaces_the_first_with_a_new_version(store: RevokeStore) -> None:
    store.revokes.put([RevokeRequest(task_id="a", reason="one"), RevokeRequest(task_id="b")])
    (again,) = store.revokes.put([RevokeRequest(task_id="a", reason="two")])
    assert store.revokes.get(["a"]) == {"a": again}
    assert [(mark.task_id, mark.reason) for mark in store.revokes.since(0, limit=10)] == [("b", ""), ("a", "two")]
    twice = store.revokes.put([RevokeRequest(task_id="c", reason="x"), RevokeRequest(task_id="c", reason="y")])
    assert [mark.version for mark in twice] == [again.version + 1, again.version + 2]
    assert store.revokes.get(["c"])["c"].reason == "y"


def test_all_marks_can_be_taken_page_by_page(store: RevokeStore) -> None:
    assert list(store.revokes.expiries()) == []
    store.revokes.put([RevokeRequest(task_id="brief", expires_seconds=0.02)])
    marks = store.revokes.put([RevokeRequest(task_id=id, expires_seconds=60) for id in "edcba"])
    _, again = store.revokes.put([RevokeRequest(task_id="forever"), RevokeRequest(task_id="a", expires_seconds=90)])
    until(lambda: not store.revokes.get(["brief"]))
    pages = list(store.revokes.expiries(page=2))
    assert [len(page) for page in pages] == [2, 2, 2]
    found = {id: expiry for page in pages for id, expiry in page}
    assert found.keys() == {*"abcde", "forever"} and found["forever"] == inf
    for mark in (marks[0], again):
        assert mark.expires_at is not None and abs(found[mark.task_id] - mark.expires_at.timestamp()) < 0.001


def test_an_expired_mark_is_gone_and_prune_is_exact(store: RevokeStore) -> None:
    store.revokes.put(
        [
            RevokeRequest(task_id="short", expires_seconds=0.1),
            RevokeRequest(task_id="long", expires_seconds=60),
            RevokeRequest(task_id="forever"),
            RevokeRequest(task_id="short-too", expires_seconds=0.1),
        ]
    )
    highest = store.revokes.version()
    until(lambda: store.revokes.get(["short", "short-too"]) == {})
    assert [mark.task_id for mark in store.revokes.since(0, limit=10)] == ["long", "forever"]
    assert store.revokes.prune() == 2
    assert store.revokes.prune() == 0
    assert store.revokes.get(["long", "forever"]).keys() == {"long", "forever"}
    assert store.revokes.version() == highest
    (next_mark,) = store.revokes.put([RevokeRequest(task_id="next")])
    assert next_mark.version > highest


def test_a_mark_replaced_before_it_expired_lives_by_the_new_one(store: RevokeStore) -> None:
    store.revokes.put([RevokeRequest(task_id="a", expires_seconds=0.05)])
    (mark,) = store.revokes.put([RevokeRequest(task_id="a")])
    until(lambda: store.now() > mark.created_at.timestamp() + 0.1)
    assert store.revokes.prune() == 0
    assert store.revokes.get(["a"]) == {"a": mark}


def test_no_two_writers_get_one_version(store: RevokeStore, open_store: Callable[[], RevokeStore]) -> None:
    stores = [open_store() for _ in range(4)]

    def put_many(n: int, each: RevokeStore) -> list[int]:
        return [each.revokes.put([RevokeRequest(task_id=f"{n}-{k}")])[0].version for k in range(20)]

    answers = together([partial(put_many, n, each) for n, each in enumerate(stores)])
    given = [version for answer in answers for version in answer]
    assert len(set(given)) == 80
    assert all(answer == sorted(answer) for answer in answers)
    assert [mark.version for mark in store.revokes.since(0, limit=100)] == sorted(given)
    assert store.revokes.version() == max(given)


def test_namespaces_do_not_see_each_others_marks(store: RevokeStore, revokes_url: str, namespace: str) -> None:
    other = open_revokes(revokes_url, f"{namespace}-other")
    store.revokes.put([RevokeRequest(task_id="a"), RevokeRequest(task_id="b", expires_seconds=0.05)])
    assert (other.revokes.get(["a"]), other.revokes.since(0, limit=9), other.revokes.version()) == ({}, [], 0)
    other.revokes.put([RevokeRequest(task_id="a", reason="theirs"), RevokeRequest(task_id="c", expires_seconds=0.05)])
    until(lambda: not store.revokes.get(["b"]) and not other.revokes.get(["c"]))
    assert store.revokes.prune() == 1
    assert (store.revokes.get(["a"])["a"].reason, other.revokes.get(["a"])["a"].reason) == ("", "theirs")
    assert other.revokes.prune() == 1
    assert store.revokes.version() == other.revokes.version() == 2
    other.close()


@pytest.mark.parametrize("revokes_url", REVOKE_BACKENDS[1:], indirect=True)
def test_a_follower_misses_nothing_that_processes_write(store: RevokeStore, revokes_url: str, namespace: str) -> None:
    gate = barrier(4)
    errand = partial(Errand, revoke_many, "memory://unused", "unused", revokes_url, namespace)
    writers = [errand(f"w{n}", 30, gate) for n in range(3)]
    gate.wait(60)
    seen: list[int] = []

    def follow() -> bool:
        seen.extend(mark.version for mark in store.revokes.since(seen[-1] if seen else 0, limit=5))
        return len(seen) == 90

    until(follow, seconds=30)
    given = [version for writer in writers for version in writer.result()]
    assert seen == sorted(given)


@pytest.mark.parametrize("revokes_url", REVOKE_BACKENDS[1:], indirect=True)
def test_marks_outlive_the_connection(store: RevokeStore, open_store: Callable[[], RevokeStore]) -> None:
    marks = store.revokes.put([RevokeRequest(task_id=id, reason="stay") for id in "ab"])
    store.close()
    again = open_store()
    assert again.revokes.since(0, limit=10) == marks
    assert again.revokes.put([RevokeRequest(task_id="c")])[0].version > marks[-1].version
