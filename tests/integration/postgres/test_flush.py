"""A single push is told of before it is on disk: what was promised or read of it outlives a crash of the server all the same."""

import signal
from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil
import psycopg
import pytest

from stem.backends import connect
from stem.backends.postgres.broker import PostgresBroker
from stem.backends.postgres.codec.push_columns import push_one
from stem.contracts.store import Store
from stem.core.envelope import Push
from stem.core.settings.app import Settings
from support.builders import a_push, done
from support.servers import PostgresServer
from support.stores.calls import WORKER, all_events, claim_one, depth, record
from support.until import until


class Fragile:
    """A server that flushes nothing by itself, and can be killed to the last process."""

    def __init__(self) -> None:
        self.server = PostgresServer()
        self._stores: list[Store] = []
        self._hold_still()

    def open(self) -> Store:
        self._stores.append(connect(self.server.url, Settings(namespace="fragile", timeout_seconds=30.0)))
        return self._stores[-1]

    def crash(self) -> Store:
        """The store as the disk has it."""
        self._close()
        self.server.lose()
        self._hold_still()
        return self.open()

    def close(self) -> None:
        self._close()
        self.server.signal(signal.SIGCONT)
        self.server.close()

    def _close(self) -> None:
        while self._stores:
            self._stores.pop().upkeep.close()

    def _hold_still(self) -> None:
        until(lambda: self._wal_writer() is not None, seconds=30)  # a server that is just up may not have named it yet
        writer = self._wal_writer()
        assert writer is not None
        writer.send_signal(signal.SIGSTOP)

    def _wal_writer(self) -> psutil.Process | None:
        for process in psutil.Process(self.server.pid).children():
            with suppress(psutil.NoSuchProcess):
                if "walwriter" in " ".join(process.cmdline()):
                    return process
        return None


@pytest.fixture(scope="module")
def shared() -> Iterator[Fragile]:
    fragile = Fragile()
    yield fragile
    fragile.close()


@pytest.fixture
def fragile(shared: Fragile) -> Fragile:
    return shared


def test_an_event_is_flushed_to_disk_only_when_somebody_asks_for_it(fragile: Fragile) -> None:
    """Else the other tests here could not fail."""
    store = fragile.open()
    told_of(store, a_push("early"))
    assert record(store, "early").id == "early"
    assert fragile.crash().results.get(["early"]) == {}


def test_a_push_that_returned_outlives_a_crash(fragile: Fragile) -> None:
    fragile.open().broker.push([a_push("returned")])
    assert record(fragile.crash(), "returned").id == "returned"


@pytest.mark.parametrize(
    "again",
    [
        lambda: [a_push("known")],
        lambda: [a_push("known"), a_push("known", name="demo.other")],
        lambda: [a_push("known", unique="key")],
    ],
    ids=["single", "batch", "unique"],
)
def test_a_push_that_found_the_task_there_says_so_only_when_it_is_kept(
    fragile: Fragile, again: Callable[[], list[Push]]
) -> None:
    store = fragile.open()
    store.broker.purge("default")
    told_of(store, a_push("known"))
    assert not any(receipt.created for receipt in fragile.open().broker.push(again()))
    kept = fragile.crash()
    assert record(kept, "known").id == "known"
    kept.broker.settle([done(claim_one(kept).lease)], worker=WORKER)
    drop(fragile, "known")


def test_an_event_that_was_read_is_there_after_a_crash(fragile: Fragile) -> None:
    store = fragile.open()
    told_of(store, a_push("read"))
    before = [event.offset for event in all_events(store)]
    assert [event.offset for event in all_events(fragile.crash())] == before


def test_the_newest_offset_is_there_after_a_crash(fragile: Fragile) -> None:
    store = fragile.open()
    told_of(store, a_push("headed"))
    head = store.events.head()
    assert fragile.crash().events.head() == head


def test_events_that_a_reader_has_seen_survive_a_crash(fragile: Fragile) -> None:
    store = fragile.open()
    after = store.events.head()
    told_of(store, a_push("sliced"))
    upto = store.history.advance(after, limit=10)
    assert upto != after
    assert fragile.crash().events.head() == upto


def test_a_settled_task_takes_its_push_along(fragile: Fragile) -> None:
    store = fragile.open()
    store.broker.purge("default")
    told_of(store, a_push("settled"))
    store.broker.settle([done(claim_one(store).lease)], worker=WORKER)
    assert record(fragile.crash(), "settled").state == "succeeded"


def test_a_server_full_of_notifications_takes_pushes_and_endings_all_the_same() -> None:
    server = PostgresServer()
    try:
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("ALTER SYSTEM SET max_notify_queue_pages = 64")
        server.restart()
        with psycopg.connect(server.url, autocommit=True) as deaf, psycopg.connect(server.url, autocommit=True) as loud:
            deaf.execute("LISTEN noise")
            deaf.execute("BEGIN")
            deaf.execute("SELECT 1")  # hears nothing until its transaction ends
            with pytest.raises(psycopg.errors.ProgramLimitExceeded):
                fill(loud)
            store = connect(server.url, Settings(namespace="loud", timeout_seconds=30.0))
            try:
                assert [receipt.created for receipt in store.broker.push([a_push("a")])] == [True]
                assert store.broker.settle([done(claim_one(store).lease)], worker=WORKER) == []
                assert record(store, "a").state == "succeeded"
                assert depth(store).ready == 0
            finally:
                store.upkeep.close()
    finally:
        server.close()


def told_of(store: Store, push: Push) -> None:
    """As a sender does that dies before he has it flushed."""
    assert isinstance(store.broker, PostgresBroker)
    space = store.broker._namespace
    told = until(lambda: space.notifier.push_notice(push.envelope.queue))  # not right after something else was told
    assert space.client.cells(push_one(space, push, told)) == [("t",)]


def fill(loud: psycopg.Connection) -> None:
    for number in range(1000):
        loud.execute("SELECT pg_notify('noise', %s)", [f"{number} {'x' * 7000}"])


def drop(fragile: Fragile, task_id: str) -> None:
    with psycopg.connect(fragile.server.url, autocommit=True) as admin:
        admin.execute("DELETE FROM stem.records WHERE id = %s", [task_id])
