"""The worker's own copy of the revokes: what it follows, what it ignores, what it costs."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stem.backends import connect
from stem.backends.memory import connect as connect_memory
from stem.contracts.store import Store
from stem.core.errors import StoreUnavailable
from stem.core.ids import uuid7
from stem.core.revoke import RevokeRecord, RevokeRequest
from stem.core.settings.app import Settings
from stem.runtime.clock import FakeClock
from stem.worker.admission.revoke_cache import RevokeCache
from support.background import Errand
from support.stores.revoke_stores import hydrate_and_measure

BATCH = 10_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock, namespace: str) -> Iterator[Store]:
    opened = connect_memory(f"memory://{namespace}", Settings(), clock=clock)
    yield opened
    opened.upkeep.close()


@pytest.fixture
def revoked(store: Store, clock: FakeClock) -> RevokeCache:
    """A worker's machine whose clock is an hour off, and of no matter."""
    return RevokeCache(store.revokes, store.upkeep.now, clock=lambda: clock() - 3600)


def put(store: Store, *ids: str, **how: Any) -> list[RevokeRecord]:
    return store.revokes.put([RevokeRequest(task_id=id, **how) for id in ids])


def known(revoked: RevokeCache, ids: str) -> str:
    return "".join(id for id in ids if revoked.is_revoked(id))


def test_it_starts_with_all_that_the_store_has_and_follows_it(store: Store, revoked: RevokeCache) -> None:
    put(store, "a", "b")
    assert (revoked.load(), len(revoked), known(revoked, "abc")) == (2, 2, "ab")
    put(store, "c")
    assert known(revoked, "abc") == "ab"
    assert (revoked.refresh(), known(revoked, "abc")) == (1, "abc")
    assert revoked.refresh() == 0


def test_more_marks_than_a_page_are_all_read(
    store: Store, revoked: RevokeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stem.worker.admission.revoke_cache._PAGE", 3)
    put(store, *"abcdefg")
    assert revoked.load() == 7
    put(store, *"hijk")
    assert revoked.refresh() == 4
    assert known(revoked, "abcdefghijkl") == "abcdefghijk"


def test_a_mark_ends_when_the_store_says_so(store: Store, revoked: RevokeCache, clock: FakeClock) -> None:
    put(store, "a", expires_seconds=10)
    put(store, "b")
    revoked.load()
    clock.advance(9.9)
    assert (known(revoked, "ab"), revoked.prune()) == ("ab", 0)
    clock.advance(0.2)
    assert known(revoked, "ab") == "b"
    assert (revoked.prune(), len(revoked), known(revoked, "ab")) == (1, 1, "b")


def test_revokes_that_expired_before_the_start_are_not_kept(
    store: Store, revoked: RevokeCache, clock: FakeClock
) -> None:
    put(store, "a", expires_seconds=1)
    put(store, "b")
    clock.advance(2)
    assert revoked.load() == 1


def test_a_control_message_counts_at_once_and_the_store_says_it_again(store: Store, revoked: RevokeCache) -> None:
    revoked.load()
    marks = put(store, "a", "b")
    assert revoked.apply(marks) == marks
    assert known(revoked, "ab") == "ab"
    assert revoked.apply(marks) == []
    revoked.refresh()
    assert revoked.apply(marks) == []
    assert len(revoked) == 2


def test_stale_versions_change_nothing(store: Store, revoked: RevokeCache, clock: FakeClock) -> None:
    (old,) = put(store, "a", expires_seconds=1)
    (new,) = put(store, "a")
    revoked.load()
    assert revoked.apply([old]) == []
    (newer, newest) = put(store, "b", expires_seconds=1) + put(store, "b")
    assert revoked.apply([newest, newer]) == [newest]
    (brief,) = put(store, "c", expires_seconds=1)
    revoked.refresh()
    clock.advance(2)
    revoked.prune()
    assert (revoked.apply([brief, new]), known(revoked, "abc")) == ([], "ab")


def test_a_message_that_overtakes_others_hides_none_of_them(store: Store, revoked: RevokeCache) -> None:
    revoked.load()
    put(store, "a")
    revoked.apply(put(store, "b"))
    put(store, "c")
    revoked.refresh()
    assert known(revoked, "abc") == "abc"


class Swapped:
    """Stands before stores, one at a time, as a URL does whose server is restored from a backup."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getattr__(self, verb: str) -> Any:
        return getattr(self.store.revokes, verb)


@pytest.fixture
def other(clock: FakeClock, namespace: str) -> Iterator[Store]:
    opened = connect_memory(f"memory://{namespace}-other", Settings(), clock=clock)
    yield opened
    opened.upkeep.close()


@pytest.mark.parametrize("marks_there", [0, 1, 3, 7])
def test_a_store_that_was_swapped_is_read_anew(store: Store, other: Store, clock: FakeClock, marks_there: int) -> None:
    """Whether it has gone back or has grown past what was seen of the one before."""
    line: Any = Swapped(store)
    revoked = RevokeCache(line, clock, clock=clock)
    put(store, *"abc")
    revoked.load()
    line.store = other
    put(other, *"tuvwxyz"[:marks_there])
    assert revoked.refresh() == marks_there
    assert known(revoked, "abctuvwxyz") == "tuvwxyz"[:marks_there]
    put(other, "n")
    revoked.refresh()
    assert revoked.is_revoked("n")


def test_a_store_that_fails_on_the_way_leaves_what_was_known(
    store: Store, other: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stem.worker.admission.revoke_cache._PAGE", 2)
    line: Any = Swapped(store)
    revoked = RevokeCache(line, clock, clock=clock)
    (old, *_) = put(store, *"abcde")
    revoked.load()

    class Failing(Swapped):
        def expiries(self, *, page: int) -> Iterator[list[tuple[str, float]]]:
            yield next(self.store.revokes.expiries(page=page))
            raise StoreUnavailable("gone")

    failing: Any = Failing(other)
    put(other, *"wxyz")
    monkeypatch.setattr(revoked, "_revokes", failing)
    with pytest.raises(StoreUnavailable):
        revoked.refresh()
    assert (known(revoked, "abcdewxyz"), revoked.apply([old])) == ("abcde", [])
    line.store = other
    monkeypatch.setattr(revoked, "_revokes", line)
    revoked.refresh()
    assert known(revoked, "abcdewxyz") == "wxyz"


def test_an_anchor_that_was_replaced_or_has_expired_is_no_swap(
    store: Store, revoked: RevokeCache, clock: FakeClock
) -> None:
    put(store, "a", "b")
    revoked.load()
    put(store, "b", reason="again")
    assert revoked.refresh() == 1
    put(store, "c", expires_seconds=1)
    assert revoked.refresh() == 1
    clock.advance(2)
    store.revokes.prune()
    assert revoked.refresh() == 0
    put(store, "d")
    assert revoked.refresh() == 1


def test_readers_see_the_old_or_the_new_while_it_reads_anew(store: Store, revoked: RevokeCache) -> None:
    put(store, "always", *(f"n{n}" for n in range(2000)))
    revoked.load()
    stop, misses = threading.Event(), 0

    def ask() -> None:
        nonlocal misses
        while not stop.is_set():
            misses += not revoked.is_revoked("always")

    reader = threading.Thread(target=ask)
    reader.start()
    for n in range(50):
        revoked.load()
        put(store, f"m{n}")
        revoked.refresh()
        revoked.prune()
    stop.set()
    reader.join(10)
    assert misses == 0


def fill(store: Store, count: int) -> None:
    for _ in range(count // BATCH):
        now = time.time()
        tasks = [uuid7(now, os.urandom(10)) for _ in range(BATCH)]
        store.revokes.put([RevokeRequest(task_id=id, reason="deploy", expires_seconds=86400.0) for id in tasks])


def measured(tmp_path: Path, count: int) -> tuple[float, float, float]:
    url = f"sqlite:///{tmp_path}/stem.db?synchronous=normal"
    store = connect(url, Settings())
    fill(store, count)
    store.upkeep.close()
    marks, wall, cpu, grown = Errand(hydrate_and_measure, url, "stem").result()
    assert marks == count
    print(f"{count:,} revokes: {wall:.2f} s, {cpu:.2f} s of processor, {grown / count:.0f} bytes each")
    return wall, cpu, grown / count


def test_hydrating_100_000_revokes_is_quick_and_small(tmp_path: Path) -> None:
    _, cpu, bytes_each = measured(tmp_path, 100_000)
    assert cpu < 1.0
    assert bytes_each < 600  # with what SQLite and a page of records take, which is the same for a million


@pytest.mark.skipif("STEM_CAMPAIGN_SECONDS" not in os.environ, reason="a figure, on a machine that does nothing else")
def test_hydrating_1_000_000_revokes_takes_2_seconds(tmp_path: Path) -> None:
    wall, _, bytes_each = measured(tmp_path, 1_000_000)
    assert wall <= 2.0
    assert bytes_each < 250
