"""Many calls go in chunks: whole, streaming, and idempotent by their ids."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from stem import Bulk, InvalidArguments, InvalidTask, Stem
from stem.testing import eager


@pytest.fixture
def square(app: Stem) -> Any:
    @app.task(name="square")
    def square(number: int) -> int:
        return number * number

    return square


def ready(app: Stem, queue: str = "default") -> int:
    return app.store.broker.depth([queue])[queue].ready


def test_items_and_objects_of_arguments_are_stored_alike(app: Stem, square: Any) -> None:
    seen: list[Bulk] = []
    items = [square.item(1), {"number": 2}, square.item(number=3)]
    assert square.enqueue_many(items, chunk=2, on_chunk=seen.append) == Bulk(3, 0)
    assert seen == [Bulk(2, 0), Bulk(3, 0)]
    bodies = [peeked.body for peeked in app.store.broker.peek("default", limit=9)]
    assert [b'"args":{"number":%d}' % number in body for number, body in enumerate(bodies, 1)] == [True] * 3


def test_sending_items_with_ids_again_adds_what_is_missing(app: Stem, square: Any) -> None:
    def items(last: int) -> Iterator[Any]:
        return (square.options(id=f"n-{number}").item(number) for number in range(last))

    assert square.enqueue_many(items(5)) == Bulk(5, 0)
    assert square.enqueue_many(items(8), chunk=3) == Bulk(3, 5)
    assert ready(app) == 8


def test_an_items_own_options_count_before_the_senders(app: Stem, square: Any) -> None:
    items = [square.item(1), square.options(priority=9).item(2), square.options(queue="own").item(3)]
    square.options(queue="bulk").enqueue_many(items)
    assert [peeked.priority for peeked in app.store.broker.peek("bulk", limit=9)] == [9, 5]
    assert ready(app, "own") == 1


def test_a_bad_item_spoils_its_chunk_and_no_other(app: Stem, square: Any) -> None:
    items = [{"number": number} for number in range(25)] + [{"number": "x"}] + [{"number": 1}] * 25
    with pytest.raises(InvalidArguments, match=r"Item 26, with 20 stored before its chunk: .*Expected `int`"):
        square.enqueue_many(items, chunk=10)
    assert ready(app) == 20


def test_a_call_of_another_task_is_refused(app: Stem, square: Any) -> None:
    other = app.task(name="other")(lambda: None)
    with pytest.raises(InvalidTask, match="a call of other, sent with square"):
        square.enqueue_many([other.item()])
    assert ready(app) == 0


@pytest.mark.parametrize("chunk", [0, -1, 1.5, True, 10**6])
def test_a_chunk_is_a_count(square: Any, chunk: Any) -> None:
    with pytest.raises(InvalidTask, match="chunk"):
        square.enqueue_many([], chunk=chunk)


def test_large_arguments_make_smaller_chunks(app: Stem) -> None:
    keep = app.task(name="keep")(lambda text: None)
    seen: list[Bulk] = []
    keep.enqueue_many(({"text": "x" * 1_000_000} for _ in range(20)), on_chunk=seen.append)
    assert [bulk.created for bulk in seen] == [9, 18, 20]


def test_a_long_stream_takes_the_memory_of_one_chunk(tmp_path: Any) -> None:
    with Stem(f"sqlite:///{tmp_path}/bulk.db") as app:
        square = app.task(name="square")(lambda number: None)
        square.enqueue_many({"number": number} for number in range(2000))
        tracemalloc.start()
        try:
            square.enqueue_many({"number": number} for number in range(50_000))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert ready(app) == 52_000
    assert peak < 8 * 1024 * 1024


def test_async_streams_are_accepted(app: Stem, square: Any) -> None:
    async def numbers() -> AsyncIterator[dict[str, int]]:
        for number in range(25):
            yield {"number": number}

    async def send() -> tuple[Bulk, Bulk]:
        return (
            await square.aenqueue_many(numbers(), chunk=10),
            await square.aenqueue_many([square.item(1)]),
        )

    assert asyncio.run(send()) == (Bulk(25, 0), Bulk(1, 0))
    assert ready(app) == 26


def test_one_id_cannot_be_that_of_many_calls(app: Stem, square: Any) -> None:
    with pytest.raises(InvalidTask, match="give each item its own"):
        square.options(id="one").enqueue_many([{"number": 1}, {"number": 2}])
    assert ready(app) == 0


def test_a_connection_belongs_to_the_sender(app: Stem, square: Any) -> None:
    with pytest.raises(InvalidTask, match="give it to the sender"):
        square.enqueue_many([square.options(connection=object()).item(1)])
    assert ready(app) == 0
    with eager(app):
        within = square.options(connection=object())
        assert within.enqueue_many([within.item(1)]) == Bulk(1, 0)


def test_when_an_item_starts_counts_before_when_the_sender_does(app: Stem, square: Any) -> None:
    at = datetime(2020, 1, 1, tzinfo=UTC)
    square.options(delay=60).enqueue_many([square.options(not_before=at).item(1), square.item(2)])
    square.options(not_before=at).enqueue_many([square.options(delay=60).item(3)])
    depth = app.store.broker.depth()["default"]
    assert (depth.ready, depth.delayed) == (1, 2)
