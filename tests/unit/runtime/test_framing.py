"""A message arrives as it was sent, however the stream cuts it."""

import socket
import threading

import pytest

from stem.runtime.framing import FrameReader, frame, read_frame


def test_a_frame_may_be_empty_or_large() -> None:
    parts = [b"", b"x" * 3_000_000, b""]
    stream, frames = b"".join(map(frame, parts)), FrameReader()
    found = [part for start in range(0, len(stream), 65_536) for part in frames.feed(stream[start : start + 65_536])]
    assert found == parts


@pytest.mark.parametrize("head", [b"\xff\xff\xff\xff", b"text", b"    "])
def test_a_frame_above_the_maximum_length_is_refused_by_its_head(head: bytes) -> None:
    with pytest.raises(ValueError, match="a frame of"):
        list(FrameReader().feed(head))


def test_a_frame_is_read_from_a_stream_that_delivers_byte_by_byte() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def send_slowly() -> None:
            for byte in frame(b"body"):
                theirs.send(bytes([byte]))

        thread = threading.Thread(target=send_slowly)
        thread.start()
        assert read_frame(ours) == b"body"
        thread.join()
        theirs.close()
        with pytest.raises(EOFError):
            read_frame(ours)
