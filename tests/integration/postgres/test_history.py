"""Slices of a log that transactions still write to: none is skipped, none is read twice, however late they commit."""

from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.settings.app import Settings
from support.background import in_thread
from support.builders import a_push
from support.servers import PostgresServer
from support.until import until


@pytest.fixture
def late(postgres_server: PostgresServer, namespace: str) -> Iterator[Store]:
    store = connect(postgres_server.url, Settings(namespace=namespace))
    yield store
    store.upkeep.close()


def follow(store: Store, after: str | None, *, limit: int) -> tuple[list[str], str | None]:
    """One step as a stream makes it: how far, cut in three, then read the slices."""
    upto = store.history.advance(after, limit=limit)
    if upto == after:
        return [], after
    pieces = store.history.slices("events", count=3, after=after, upto=upto)
    found = [id for piece in pieces for (ids,) in store.history.chunks(piece, ["task_id"]) for id in ids]
    assert 0 < len(found) <= limit
    return found, upto


def test_a_stretch_ends_before_the_oldest_transaction_that_is_still_open(
    late: Store, postgres_server: PostgresServer
) -> None:
    late.broker.push([a_push("first")])
    with psycopg.connect(postgres_server.url) as slow:
        late.broker.push([a_push("slow")], connection=slow)
        late.broker.push([a_push("quick")])
        seen, after = until(lambda: found if (found := follow(late, None, limit=100))[0] else None)
        assert seen == ["first"]
        assert late.history.advance(after, limit=100) == after
        assert len(late.history.slices("events", count=5)) == 1
        slow.commit()
    seen.clear()

    def have_come() -> bool:
        nonlocal after
        found, after = follow(late, after, limit=100)
        seen.extend(found)
        return len(seen) >= 2

    until(have_come)  # the server has transactions of its own, at times
    assert seen == ["slow", "quick"]


def test_a_follower_meets_each_event_once_while_transactions_stay_open_and_commit_out_of_turn(
    late: Store, postgres_server: PostgresServer
) -> None:
    def write() -> None:
        with ExitStack() as stack:
            open_ones: list[psycopg.Connection] = []
            for n in range(60):
                connection = stack.enter_context(psycopg.connect(postgres_server.url))
                late.broker.push([a_push(f"slow-{n}-{i}") for i in range(3)], connection=connection)
                late.broker.push([a_push(f"quick-{n}")])
                open_ones.append(connection)
                if len(open_ones) == 6:  # the youngest first, the oldest stays open through three rounds
                    for each in open_ones[:1:-1]:
                        each.commit()
                    del open_ones[2:]
                    if n % 3 == 0:
                        open_ones.pop(0).commit()
            for each in open_ones:
                each.commit()

    writer = in_thread(write)
    seen: list[str] = []
    after: str | None = None

    def caught_up() -> bool:
        nonlocal after
        found, after = follow(late, after, limit=7)
        seen.extend(found)
        return writer.done() and not found

    until(caught_up, seconds=60)
    writer.result(1)
    assert sorted(seen) == sorted(
        [f"quick-{n}" for n in range(60)] + [f"slow-{n}-{i}" for n in range(60) for i in range(3)]
    )
