"""What passes between a partition's process and the one that runs its items."""

import socket
from collections.abc import Iterator

import msgspec

from stem.core.record import TaskError

_HEAD = 4  # bytes of a frame's length


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What executors must know of a bulk."""

    bulk: str
    task: str
    app: str  # as `module:name`, or `file.py:name`
    paths: list[str]  # where the driver finds modules
    table: str
    key: str | None = None  # the column that names an item
    retry_wait_seconds: float = 10.0

    def item_of(self, partition: int, number: int, key: str | None) -> str:
        return f"{partition}-{number}" if key is None else key


class Work(msgspec.Struct, frozen=True, array_like=True, tag="w"):
    """Items that have not run yet, numbered from `first` on; all of one chunk."""

    chunk: int
    first: int
    raws: list[bytes]
    keys: list[str] | None


class Again(msgspec.Struct, frozen=True, array_like=True, tag="a"):
    """One item that was in a process that fell, with what it had spent before."""

    chunk: int
    number: int
    raw: bytes
    key: str | None
    attempt: int
    deaths: int


class Failed(msgspec.Struct, frozen=True, array_like=True):
    """An item that was given up. With the reason `cancelled` it asked for that itself, and is no dead letter."""

    number: int
    reason: str
    error: TaskError
    attempts: int
    started_at: float
    finished_at: float


class Told(msgspec.Struct, frozen=True, array_like=True):
    """What became of some items of a chunk: `times` are doubles, two an item. `parked` wait for their next attempt."""

    chunk: int
    numbers: list[int]
    payloads: list[bytes]
    attempts: list[int]
    times: bytes
    failed: list[Failed]
    parked: list[tuple[int, int]]  # number, attempt


def frame(word: Work | Again | Told) -> bytes:
    body = _encoder.encode(word)
    return len(body).to_bytes(_HEAD, "big") + body


class Frames:
    """Bytes in, whole frames out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._buffer += data
        while len(self._buffer) >= _HEAD:
            end = _HEAD + int.from_bytes(self._buffer[:_HEAD], "big")
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEAD:end])
            del self._buffer[:end]
            yield body


def receive(line: socket.socket) -> Work | Again | None:
    """The next word, waited for; None when the other side has gone."""
    head = _exactly(line, _HEAD)
    return None if head is None else _work.decode(_exactly(line, int.from_bytes(head, "big")) or b"")


def _exactly(line: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        some = line.recv(count - len(parts))
        if not some:
            return None
        parts += some
    return bytes(parts)


_encoder = msgspec.msgpack.Encoder()
_work = msgspec.msgpack.Decoder(Work | Again)
told = msgspec.msgpack.Decoder(Told).decode
