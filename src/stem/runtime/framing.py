"""Length-prefixed messages over a byte stream: four bytes of length, little-endian, then the message."""

import socket
from collections.abc import Iterator

HEAD_BYTES = 4

# Twice the largest arguments and results that can be allowed. Four ASCII letters read as a length exceed it, so text that
# something else has written to the stream is detected at once.
MAX_FRAME_BYTES = 512 * 1024 * 1024


def frame(message: bytes) -> bytes:
    """Return the message with its length in front."""
    return len(message).to_bytes(HEAD_BYTES, "little") + message


def frame_length(head: bytes) -> int:
    """Return the length that a frame's first bytes announce. Raises ValueError if it is above the maximum."""
    length = int.from_bytes(head, "little")
    if length > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {length} bytes exceeds the maximum of {MAX_FRAME_BYTES}")
    return length


class FrameReader:
    """Cuts the chunks that a stream delivers into messages; keeps an incomplete message until the rest arrives."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._needed = 0  # bytes before the rest holds a whole frame

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the messages that are complete now. Raises ValueError for a frame above the maximum length."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return  # do not scan again for every chunk of a large frame
            data = bytes(self._rest)
        start, end, self._needed = 0, len(data), HEAD_BYTES
        while end - start >= HEAD_BYTES:
            length = frame_length(data[start : start + HEAD_BYTES])
            after = start + HEAD_BYTES + length
            if after > end:
                self._needed = HEAD_BYTES + length
                break
            yield data[start + HEAD_BYTES : after]
            start = after
        self._rest = bytearray(data[start:])


def read_frame(stream: socket.socket) -> bytes:
    """Read one message from a blocking stream. Raises EOFError when the other side has closed it."""
    return read_exactly(stream, frame_length(read_exactly(stream, HEAD_BYTES)))


def read_exactly(stream: socket.socket, count: int) -> bytes:
    """Read `count` bytes from a blocking stream. Raises EOFError when the other side has closed it."""
    parts, missing = [], count
    while missing:
        part = stream.recv(min(missing, 1 << 20))
        if not part:
            raise EOFError("the other side has closed the stream")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
