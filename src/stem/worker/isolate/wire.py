"""The messages between supervisor and isolate.

Runs go down the inbox, a packet socket: each packet is read whole by one reader, so the supervisor can take back what the
isolate has not started. Endings, and requests with their replies, go over a byte stream in frames.
"""

import signal
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from stem.client.canvas.values import StoredValue
from stem.client.task.policy import MAX_SECONDS
from stem.contracts.steps import Step
from stem.core.delivery import Delivery, Ending, Lease
from stem.core.envelope import Push, Receipt
from stem.core.outcome import Done, Requeue, Retry, Settlement
from stem.runtime.framing import FrameReader, frame

# Larger bodies are requested over the stream: a packet must fit into the socket's buffer.
INLINE_BODY_BYTES = 64 * 1024
PACKET_BYTES = INLINE_BODY_BYTES + 4096

# Makes an isolate read its status block. A signal that neither people nor libraries use.
INTERRUPT = signal.SIGRTMIN + 2


class Run(msgspec.Struct, frozen=True, array_like=True):
    """`body` is None if it is large and must be requested."""

    number: int
    id: str
    fence: int
    name: str
    queue: str
    attempt: int
    deaths: int
    body: bytes | None
    priority: int | None
    is_cleanup: bool = False  # its isolate has died; only end what its engine left behind

    def delivery(self, body: bytes) -> Delivery:
        lease = Lease(self.id, self.fence)
        return Delivery(lease, self.name, self.queue, self.attempt, self.deaths, body, self.priority)


class IsolateReady(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The isolate accepts runs."""


class RunEnded(msgspec.Struct, frozen=True, tag="e", array_like=True):
    """How a run was settled: `payload` for one that is done, else the settlement as JSON. `progress` is its last, as JSON."""

    number: int
    run_seconds: float | None
    payload: bytes | None
    other: bytes | None = None
    progress: bytes = b""
    more: bytes = b""  # a `RunMore` as JSON
    trace_id: str = ""

    @property
    def meta(self) -> dict[str, Any]:
        return {"progress": msgspec.json.decode(self.progress)} if self.progress else {}


class RunMore(msgspec.Struct, frozen=True):
    """What is written together with the settlement of a run; few have any."""

    meta: dict[str, Any] = {}
    follow_ups: tuple[Push, ...] = ()


class ExtendLease(msgspec.Struct, frozen=True, tag="x", array_like=True):
    number: int
    seconds: float


class BodyRequest(msgspec.Struct, frozen=True, tag="b", array_like=True):
    """Answered with the body alone, without a frame."""

    number: int


class PushRequest(msgspec.Struct, frozen=True, tag="p", array_like=True):
    """Pushes as JSON; answered with a `PushReply`."""

    pushes: bytes


class PushReply(msgspec.Struct, frozen=True):
    """`error` is a class of stem.core.errors and its sentence."""

    receipts: list[Receipt] = []
    error: tuple[str, str] | None = None


class StepsRequest(msgspec.Struct, frozen=True, tag="s", array_like=True):
    """Answered with a `StepsReply`: the steps of a task."""

    task_id: str


class RecordStep(msgspec.Struct, frozen=True, tag="t", array_like=True):
    """Answered with a `StepsReply`: whether the lease is valid."""

    lease: Lease
    name: str
    payload: bytes


class StepsReply(msgspec.Struct, frozen=True):
    """`error` is a class of stem.core.errors and its sentence."""

    steps: list[Step] = []
    is_recorded: bool = False
    error: tuple[str, str] | None = None


class RecordsRequest(msgspec.Struct, frozen=True, tag="r", array_like=True):
    """Records whose values a task takes; answered with a `RecordsReply`."""

    ids: list[str]


class RecordsReply(msgspec.Struct, frozen=True):
    records: list[StoredValue] = []
    error: tuple[str, str] | None = None


Request = BodyRequest | PushRequest | StepsRequest | RecordStep | RecordsRequest  # the isolate waits for the answer
Message = IsolateReady | RunEnded | ExtendLease | Request


def encode_run(number: int, delivery: Delivery) -> bytes:
    inline = delivery.body if len(delivery.body) <= INLINE_BODY_BYTES else None
    return _packer.encode(_run(number, delivery, inline))


def encode_cleanup(number: int, delivery: Delivery) -> bytes:
    """Encode the cleanup after a run whose isolate has died."""
    return _packer.encode((*_run(number, delivery, b""), True))


def read_run(packet: bytes | memoryview) -> Run:
    return _runs.decode(packet)


def encode_ending(
    number: int,
    settlement: Settlement,
    run_seconds: float | None,
    progress: bytes = b"",
    meta: Mapping[str, Any] | None = None,
    follow_ups: tuple[Push, ...] = (),
    trace_id: str = "",
) -> bytes:
    """The frame of a `RunEnded`. Built without the struct, because one is sent for every task."""
    payload = bytes(settlement.payload) if isinstance(settlement, Done) else None
    other = None if payload is not None else msgspec.json.encode(settlement)
    more = msgspec.json.encode(RunMore(dict(meta or {}), follow_ups)) if meta or follow_ups else b""
    return frame(_packer.encode(("e", number, run_seconds, payload, other, progress, more, trace_id)))


def with_more(ending: Ending, message: RunEnded) -> Ending:
    """The ending with what the run wants written together with it, unless the run was settled otherwise than it says. Raises
    ValueError or MsgspecError for what no isolate writes."""
    more = _more.decode(message.more)
    if ending.settlement != settlement_of(message):
        return ending
    return msgspec.structs.replace(ending, meta={**ending.meta, **more.meta}, follow_ups=more.follow_ups)


def settlement_of(message: RunEnded) -> Settlement:
    """Raises ValueError or MsgspecError for what no isolate writes."""
    if message.run_seconds is not None:
        check_seconds(message.run_seconds)
    if message.payload is not None:
        return Done(msgspec.Raw(message.payload))
    settlement = _settlements.decode(message.other or b"")
    if isinstance(settlement, Retry | Requeue):
        check_seconds(settlement.delay_seconds)
    return settlement


def check_seconds(value: float) -> float:
    """Raises ValueError for a number that is no time span."""
    if not 0 <= value <= MAX_SECONDS:  # also false for NaN
        raise ValueError(f"{value} is no number of seconds")
    return value


def encode(message: Message) -> bytes:
    return frame(_packer.encode(message))


def decode(frames: FrameReader, data: bytes) -> Iterator[Message]:
    """The messages that are complete with this data. Raises ValueError or MsgspecError for what no isolate writes."""
    return map(_messages.decode, frames.feed(data))


def encode_pushes(pushes: list[Push]) -> bytes:
    return msgspec.json.encode(pushes)


def decode_pushes(data: bytes) -> list[Push]:
    return _pushes.decode(data)


def decode_steps(data: bytes) -> StepsReply:
    return _stepped.decode(data)


def decode_records(data: bytes) -> RecordsReply:
    return _records.decode(data)


def decode_pushed(data: bytes) -> PushReply:
    return _pushed.decode(data)


def _run(number: int, delivery: Delivery, body: bytes | None) -> tuple[object, ...]:
    """The fields of a `Run`. A tuple, because one is sent for every task."""
    lease, each = delivery.lease, delivery
    return number, lease.id, lease.fence, each.name, each.queue, each.attempt, each.deaths, body, each.priority


_packer = msgspec.msgpack.Encoder()
_runs = msgspec.msgpack.Decoder(Run)
_messages = msgspec.msgpack.Decoder(Message)
_settlements: "msgspec.json.Decoder[Settlement]" = msgspec.json.Decoder(Settlement)
_pushes = msgspec.json.Decoder(list[Push])
_pushed = msgspec.json.Decoder(PushReply)
_stepped = msgspec.json.Decoder(StepsReply)
_records = msgspec.json.Decoder(RecordsReply)
_more = msgspec.json.Decoder(RunMore)
