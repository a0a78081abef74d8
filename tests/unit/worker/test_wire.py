"""What passes between supervisor and isolate arrives as it was sent, however it is cut on the way."""

import os
import socket
import threading

import msgspec
import pytest

from stem.core.delivery import Delivery, Lease
from stem.core.outcome import Cancelled, Dead, Done, Requeue, Retry, Settlement
from stem.core.record import TaskError
from stem.worker import wire
from stem.worker.wire import AskBody, AskPush, Ended, Extend, Frames, Ready, Word

ERROR = TaskError("ValueError", "böse", "stack", retryable=True)
WORDS: list[Word] = [
    Ready(),
    Ended(1, 0.5, b'{"a":1}'),
    Ended(2, 0.25, None, msgspec.json.encode(Retry(1.5, ERROR)), b'{"fraction":0.5}'),
    Ended(3, None, None, msgspec.json.encode(Dead("not-retryable", ERROR, {"n": 1}))),
    Extend(4, 30.0),
    AskBody(5),
    AskPush(b"[]"),
]


def test_frames_are_put_together_wherever_they_were_cut() -> None:
    """At every byte into two, and into single bytes."""
    stream = b"".join(map(wire.frame, WORDS))
    for cut in range(len(stream) + 1):
        frames = Frames()
        assert [*frames.words(stream[:cut]), *frames.words(stream[cut:])] == WORDS
    frames = Frames()
    assert [word for byte in stream for word in frames.words(bytes([byte]))] == WORDS


def test_a_frame_may_be_empty_or_large() -> None:
    parts = [b"", b"x" * 3_000_000, b""]
    stream, frames = b"".join(map(wire.framed, parts)), Frames()
    found = [part for start in range(0, len(stream), 65_536) for part in frames.feed(stream[start : start + 65_536])]
    assert found == parts


@pytest.mark.parametrize("head", [b"\xff\xff\xff\xff", b"text", b"    "])
def test_a_frame_longer_than_any_is_refused_by_its_head(head: bytes) -> None:
    with pytest.raises(ValueError, match="a frame of"):
        list(Frames().feed(head))


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_number_that_is_no_time_span_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="no number of seconds"):
        wire.settlement_of(Ended(1, seconds, b"1"))
    with pytest.raises((ValueError, msgspec.MsgspecError)):
        wire.settlement_of(Ended(1, 0.5, None, msgspec.json.encode(Retry(seconds, ERROR))))


def test_what_is_no_word_is_refused() -> None:
    with pytest.raises(msgspec.MsgspecError):
        list(Frames().words(wire.framed(b"\xc1\xc1")))


@pytest.mark.parametrize(
    "settlement",
    [
        Done(msgspec.Raw(b"null")),
        Retry(2.0, ERROR),
        Dead("crash-loop", ERROR, {"deaths": 3}),
        Requeue(0.5, "later", died=True),
        Cancelled("revoked"),
    ],
)
def test_a_settlement_comes_out_as_it_went_in(settlement: Settlement) -> None:
    (word,) = Frames().words(wire.ending(9, settlement, 0.1, b'{"fraction":1}'))
    assert isinstance(word, Ended)
    assert (word.number, word.run_seconds, word.meta) == (9, 0.1, {"progress": {"fraction": 1}})
    assert wire.settlement_of(word) == settlement


def test_an_ending_without_progress_has_no_meta() -> None:
    (word,) = Frames().words(wire.ending(1, Done(msgspec.Raw(b"1")), None))
    assert isinstance(word, Ended)
    assert word.meta == {}


@pytest.mark.parametrize("size", [0, 1, wire.INLINE_BODY_BYTES, wire.INLINE_BODY_BYTES + 1, 5_000_000])
def test_a_run_carries_its_body_unless_it_is_too_large_for_a_message(size: int) -> None:
    body = os.urandom(size)
    delivery = Delivery(Lease("id" * 50, 2**53), "name" * 50, "queue" * 10, 3, 1, body)
    packet = wire.run_of(2**40, delivery)
    assert len(packet) <= wire.PACKET_BYTES
    run = wire.read_run(packet)
    assert (run.body is None) == (size > wire.INLINE_BODY_BYTES)
    assert run.number == 2**40 and run.delivery(body) == delivery


def test_a_frame_is_read_from_a_stream_that_dawdles() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def dawdle() -> None:
            for byte in wire.framed(b"body"):
                theirs.send(bytes([byte]))

        thread = threading.Thread(target=dawdle)
        thread.start()
        assert wire.read_frame(ours) == b"body"
        thread.join()
        theirs.close()
        with pytest.raises(EOFError):
            wire.read_frame(ours)
