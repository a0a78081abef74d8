"""What passes between supervisor and isolate arrives as it was sent, however it is cut on the way."""

import os

import msgspec
import pytest

from stem.core.delivery import Delivery, Ending, Lease
from stem.core.outcome import Block, Cancelled, Dead, Done, Requeue, Retry, Settlement
from stem.core.record import TaskError
from stem.runtime.framing import FrameReader, frame
from stem.worker.isolate import wire
from stem.worker.isolate.wire import BodyRequest, ExtendLease, IsolateReady, Message, PushRequest, RunEnded
from support.builders import a_push

ERROR = TaskError("ValueError", "böse", "stack", retryable=True)
MESSAGES: list[Message] = [
    IsolateReady(),
    RunEnded(1, 0.5, b'{"a":1}'),
    RunEnded(2, 0.25, None, msgspec.json.encode(Retry(1.5, ERROR)), b'{"fraction":0.5}'),
    RunEnded(3, None, None, msgspec.json.encode(Dead("not-retryable", ERROR, {"n": 1}))),
    ExtendLease(4, 30.0),
    BodyRequest(5),
    PushRequest(b"[]"),
]


def test_frames_are_put_together_wherever_they_were_cut() -> None:
    """At every byte into two, and into single bytes."""
    stream = b"".join(map(wire.encode, MESSAGES))
    for cut in range(len(stream) + 1):
        frames = FrameReader()
        assert [*wire.decode(frames, stream[:cut]), *wire.decode(frames, stream[cut:])] == MESSAGES
    frames = FrameReader()
    assert [message for byte in stream for message in wire.decode(frames, bytes([byte]))] == MESSAGES


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_number_that_is_no_time_span_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="no number of seconds"):
        wire.settlement_of(RunEnded(1, seconds, b"1"))
    with pytest.raises((ValueError, msgspec.MsgspecError)):
        wire.settlement_of(RunEnded(1, 0.5, None, msgspec.json.encode(Retry(seconds, ERROR))))


def test_bytes_that_are_no_message_are_refused() -> None:
    with pytest.raises(msgspec.MsgspecError):
        list(wire.decode(FrameReader(), frame(b"\xc1\xc1")))


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
    (message,) = wire.decode(FrameReader(), wire.encode_ending(9, settlement, 0.1, b'{"fraction":1}'))
    assert isinstance(message, RunEnded)
    assert (message.number, message.run_seconds, message.meta) == (9, 0.1, {"progress": {"fraction": 1}})
    assert wire.settlement_of(message) == settlement


def test_an_ending_brings_meta_and_follow_ups_unless_it_was_settled_otherwise() -> None:
    push = a_push()
    frame = wire.encode_ending(9, Block(("r",)), 0.1, b"", {"valueOf": "r"}, (push,))
    (message,) = wire.decode(FrameReader(), frame)
    assert isinstance(message, RunEnded)
    ending = wire.with_more(Ending(Lease("t", 1), Block(("r",)), 0.1, {"progress": 1}), message)
    assert (ending.meta, ending.follow_ups) == ({"progress": 1, "valueOf": "r"}, (push,))
    stopped = Ending(Lease("t", 1), Cancelled("revoked"), 0.1)
    assert wire.with_more(stopped, message) == stopped


def test_an_ending_without_progress_has_no_meta() -> None:
    (message,) = wire.decode(FrameReader(), wire.encode_ending(1, Done(msgspec.Raw(b"1")), None))
    assert isinstance(message, RunEnded)
    assert message.meta == {}


@pytest.mark.parametrize("size", [0, 1, wire.INLINE_BODY_BYTES, wire.INLINE_BODY_BYTES + 1, 5_000_000])
def test_a_run_carries_its_body_unless_it_is_too_large_for_a_message(size: int) -> None:
    body = os.urandom(size)
    delivery = Delivery(Lease("id" * 50, 2**53), "name" * 50, "queue" * 10, 3, 1, body)
    packet = wire.encode_run(2**40, delivery)
    assert len(packet) <= wire.PACKET_BYTES
    run = wire.read_run(packet)
    assert (run.body is None) == (size > wire.INLINE_BODY_BYTES)
    assert run.number == 2**40 and run.delivery(body) == delivery
