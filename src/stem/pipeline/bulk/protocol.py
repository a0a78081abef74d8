"""Messages between the process of a partition and the child that runs its items."""

import socket

import msgspec

from stem.core.record import TaskError
from stem.runtime.framing import frame, read_frame


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a bulk for executors."""

    bulk: str
    task: str
    app: str  # as `module:name`, or `file.py:name`
    paths: list[str]  # where the driver finds modules
    table: str
    key: str | None = None  # the column that names an item
    retry_wait_seconds: float = 10.0

    def item_of(self, partition: int, number: int, key: str | None) -> str:
        return f"{partition}-{number}" if key is None else key


class ItemBlock(msgspec.Struct, frozen=True, array_like=True, tag="w"):
    """Items of one chunk that have not run yet, numbered from `first`."""

    chunk: int
    first: int
    raws: list[bytes]
    keys: list[str] | None


class SingleItem(msgspec.Struct, frozen=True, array_like=True, tag="a"):
    """One item whose process died, with the attempts and deaths it has had."""

    chunk: int
    number: int
    raw: bytes
    key: str | None
    attempt: int
    deaths: int


class Failed(msgspec.Struct, frozen=True, array_like=True):
    """An item that failed for good. With the reason `cancelled` it cancelled itself, and becomes no dead letter."""

    number: int
    reason: str
    error: TaskError
    attempts: int
    started_at: float
    finished_at: float


class ItemResults(msgspec.Struct, frozen=True, array_like=True):
    """Results of some items of a chunk. `times` has two doubles per item; `parked` items wait for their next attempt."""

    chunk: int
    numbers: list[int]
    payloads: list[bytes]
    attempts: list[int]
    times: bytes
    failed: list[Failed]
    parked: list[tuple[int, int]]  # number, attempt


def framed(message: ItemBlock | SingleItem | ItemResults) -> bytes:
    return frame(_encoder.encode(message))


def receive(line: socket.socket) -> ItemBlock | SingleItem | None:
    """Wait for the next message. None when the other side has closed the line."""
    try:
        return _work.decode(read_frame(line))
    except EOFError:
        return None


_encoder = msgspec.msgpack.Encoder()
_work: msgspec.msgpack.Decoder[ItemBlock | SingleItem] = msgspec.msgpack.Decoder(ItemBlock | SingleItem)
decode_results = msgspec.msgpack.Decoder(ItemResults).decode
