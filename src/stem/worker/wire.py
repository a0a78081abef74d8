"""All that passes between a supervisor and an isolate.

Down the inbox, a socket that keeps messages apart, come runs; each is taken whole by whoever reads first, so a supervisor
can take back what an isolate has not begun. Along the line, a stream both ways, go endings, and questions with answers.
"""

import signal
import socket
from collections.abc import Iterator
from typing import Any

import msgspec

from stem.client.policy import MAX_SECONDS
from stem.core.delivery import Delivery, Lease
from stem.core.envelope import Push, Receipt
from stem.core.outcome import Done, Requeue, Retry, Settlement

# Larger bodies are asked for along the line: a message must fit into the socket's buffer.
INLINE_BODY_BYTES = 64 * 1024
PACKET_BYTES = INLINE_BODY_BYTES + 4096

# Twice the largest arguments and results that can be allowed. Any four letters taken for a length are more than that, so text
# on the line is found out at once.
MAX_FRAME_BYTES = 512 * 1024 * 1024

# Has an isolate look into its cell. None of the signals that people and libraries use.
INTERRUPT = signal.SIGRTMIN + 2


class Run(msgspec.Struct, frozen=True, array_like=True):
    """`body` None: it is large, ask for it."""

    number: int
    id: str
    fence: int
    name: str
    queue: str
    attempt: int
    deaths: int
    body: bytes | None
    is_over: bool = False  # the isolate that ran it has died; only what its engine left behind is to be ended

    def delivery(self, body: bytes) -> Delivery:
        return Delivery(Lease(self.id, self.fence), self.name, self.queue, self.attempt, self.deaths, body)


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The isolate takes runs now."""


class Ended(msgspec.Struct, frozen=True, tag="e", array_like=True):
    """How a run was settled: `payload` for one that is done, else the settlement as JSON. `progress` is its last, as JSON."""

    number: int
    run_seconds: float | None
    payload: bytes | None
    other: bytes | None = None
    progress: bytes = b""

    @property
    def meta(self) -> dict[str, Any]:
        return {"progress": msgspec.json.decode(self.progress)} if self.progress else {}


class Extend(msgspec.Struct, frozen=True, tag="x", array_like=True):
    number: int
    seconds: float


class AskBody(msgspec.Struct, frozen=True, tag="b", array_like=True):
    """Answered by the bare body."""

    number: int


class AskPush(msgspec.Struct, frozen=True, tag="p", array_like=True):
    """Pushes as JSON; answered by a `Pushed`."""

    pushes: bytes


class Pushed(msgspec.Struct, frozen=True):
    """`error` is a class of stem.core.errors and its sentence."""

    receipts: list[Receipt] = []
    error: tuple[str, str] | None = None


Word = Ready | Ended | Extend | AskBody | AskPush


def run_of(number: int, delivery: Delivery) -> bytes:
    lease, body = delivery.lease, delivery.body
    inline = body if len(body) <= INLINE_BODY_BYTES else None
    run = (number, lease.id, lease.fence, delivery.name, delivery.queue, delivery.attempt, delivery.deaths, inline)
    return _packer.encode(run)


def rites_of(number: int, delivery: Delivery) -> bytes:
    """A run that is over, for its engine to clear up after."""
    lease = delivery.lease
    return _packer.encode(
        (number, lease.id, lease.fence, delivery.name, delivery.queue, delivery.attempt, delivery.deaths, b"", True)
    )


def read_run(packet: bytes | memoryview) -> Run:
    return _runs.decode(packet)


def ending(number: int, settlement: Settlement, run_seconds: float | None, progress: bytes = b"") -> bytes:
    """The frame of an `Ended`. Sent for every task: without the detour over the word itself."""
    payload = bytes(settlement.payload) if isinstance(settlement, Done) else None
    other = None if payload is not None else msgspec.json.encode(settlement)
    return framed(_packer.encode(("e", number, run_seconds, payload, other, progress)))


def settlement_of(word: Ended) -> Settlement:
    """Raises ValueError or MsgspecError for what no isolate writes."""
    if word.run_seconds is not None:
        checked_seconds(word.run_seconds)
    if word.payload is not None:
        return Done(msgspec.Raw(word.payload))
    settlement = _settlements.decode(word.other or b"")
    if isinstance(settlement, Retry | Requeue):
        checked_seconds(settlement.delay_seconds)
    return settlement


def checked_seconds(value: float) -> float:
    """Raises ValueError for a number that is no time span."""
    if not 0 <= value <= MAX_SECONDS:  # false for what is not a number, too
        raise ValueError(f"{value} is no number of seconds")
    return value


def frame(word: Word) -> bytes:
    return framed(_packer.encode(word))


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little") + data


def encode_pushes(pushes: list[Push]) -> bytes:
    return msgspec.json.encode(pushes)


def decode_pushes(data: bytes) -> list[Push]:
    return _pushes.decode(data)


def decode_pushed(data: bytes) -> Pushed:
    return _pushed.decode(data)


class Frames:
    """Cuts what a stream brings into frames; what is not whole yet waits for its rest."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._needed = 0  # bytes, before the rest holds a frame

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Raises ValueError for a frame that nobody sends."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return  # not looked at again for every part of a large frame
            data = bytes(self._rest)
        start, end, self._needed = 0, len(data), 4
        while end - start >= 4:
            length = int.from_bytes(data[start : start + 4], "little")
            if length > MAX_FRAME_BYTES:
                raise ValueError(f"a frame of {length} bytes")
            after = start + 4 + length
            if after > end:
                self._needed = 4 + length
                break
            yield data[start + 4 : after]
            start = after
        self._rest = bytearray(data[start:])

    def words(self, data: bytes) -> Iterator[Word]:
        return map(_words.decode, self.feed(data))


def read_frame(stream: socket.socket) -> bytes:
    """One frame from a blocking stream. Raises EOFError when the other side is gone."""
    return exactly(stream, int.from_bytes(exactly(stream, 4), "little"))


def exactly(stream: socket.socket, count: int) -> bytes:
    parts, missing = [], count
    while missing:
        part = stream.recv(min(missing, 1 << 20))
        if not part:
            raise EOFError("the other side has closed the line")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


_packer = msgspec.msgpack.Encoder()
_runs = msgspec.msgpack.Decoder(Run)
_words = msgspec.msgpack.Decoder(Word)
_settlements: "msgspec.json.Decoder[Settlement]" = msgspec.json.Decoder(Settlement)
_pushes = msgspec.json.Decoder(list[Push])
_pushed = msgspec.json.Decoder(Pushed)
