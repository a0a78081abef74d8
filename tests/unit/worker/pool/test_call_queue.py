"""Calls are made in the selector's thread, in rounds."""

import selectors
import socket
from collections.abc import Iterator

import pytest

from stem.worker.pool.call_queue import CallQueue


@pytest.fixture
def selector() -> Iterator[selectors.BaseSelector]:
    with selectors.DefaultSelector() as selector:
        yield selector


@pytest.fixture
def calls(selector: selectors.BaseSelector) -> Iterator[CallQueue]:
    calls = CallQueue(selector)
    calls.open()
    yield calls
    calls.close()


def test_a_call_after_the_select_comes_behind_what_a_round_that_had_begun_did_not_see(
    calls: CallQueue, selector: selectors.BaseSelector
) -> None:
    """A select that a thaw interrupts returns nothing, though an isolate has died meanwhile."""
    made: list[str] = []
    reader, writer = socket.socketpair()
    with reader, writer:
        selector.register(reader, selectors.EVENT_READ, lambda: made.append(reader.recv(9).decode()))
        assert selector.select(0) == []
        writer.send(b"died")
        calls.post_after_select(lambda: made.append("caught up"))
        calls.make_all()
        assert made == []
        for key, _ in selector.select(0):
            key.data()
        calls.make_all()
    assert made == ["died", "caught up"]


def test_a_call_posted_by_a_call_wakes_the_selector_for_the_next_round(
    calls: CallQueue, selector: selectors.BaseSelector
) -> None:
    made: list[int] = []
    calls.post(lambda: calls.post(lambda: made.append(2)))
    for key, _ in selector.select(0):
        key.data()
    calls.make_all()
    assert made == []
    assert len(selector.select(0)) == 1
    calls.make_all()
    assert made == [2]
