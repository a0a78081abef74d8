"""Tasks that attack the worker that runs them, as far as their process lets them."""

import mmap
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

from stem import Stem
from support.worker_apps.plain import meet

app = Stem(retry=0.02, max_retries=0)
app.task(name="meet")(meet)
app.task(name="echo")(lambda value=None: value)

GARBAGE = {
    "a word that is none": b"\x05\x00\x00\x00\xc1\xc1\xc1\xc1\xc1",
    "text": b"hello, world\n" * 100,
    "half a frame": (100_000_000).to_bytes(4, "little") + b"x",
    "the longest frame": b"\xff\xff\xff\xff" + b"x" * 1000,
    "an empty frame": b"\x00\x00\x00\x00",
}


def descriptors() -> Iterator[int]:
    for entry in os.listdir("/proc/self/fd"):
        if int(entry) > 2:
            yield int(entry)


@app.task(name="garbage")
def garbage(what: str) -> str:
    """Down every descriptor there is, the line to the supervisor among them."""
    for descriptor in descriptors():
        try:
            os.set_blocking(descriptor, False)
            os.write(descriptor, GARBAGE[what])
        except OSError:
            continue
    return "written"


@app.task(name="flood", hard_limit=1.0)
def flood(seconds: float) -> None:
    """As much as they take, for as long as it may."""
    data, end = b"\x00\x00\x00\x10" + b"x" * 65_532, time.monotonic() + seconds
    for descriptor in descriptors():
        with suppress(OSError):
            os.set_blocking(descriptor, False)
    while time.monotonic() < end:
        for descriptor in descriptors():
            try:
                os.write(descriptor, data)
            except OSError:
                continue


@app.task(name="stops-itself", hard_limit=0.5)
def stops_itself() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


@app.task(name="stops-its-group", hard_limit=0.5)
def stops_its_group() -> None:
    os.killpg(0, signal.SIGSTOP)


@app.task(name="recurses")
def recurses() -> None:
    """Until there is no memory left."""
    sys.setrecursionlimit(2**31 - 1)

    def deeper(kept: object) -> object:
        return deeper([kept, bytearray(100_000)])

    deeper(None)


@app.task(name="shrinks-memory")
def shrinks_memory() -> list[str]:
    """The memory that it shares with the supervisor, by every way there is to it."""
    said = []
    for way in shared_memory():
        try:
            descriptor = os.open(way, os.O_RDWR)
            os.ftruncate(descriptor, 0)
            said.append("shrunk")
        except OSError as error:
            said.append(type(error).__name__)
    return said


@app.task(name="fills-memory", hard_limit=1.0)
def fills_memory(byte: int) -> None:
    """With nonsense: numbers that are none, lengths beyond all bounds."""
    for way in shared_memory():
        descriptor = os.open(way, os.O_RDWR)
        size = os.fstat(descriptor).st_size
        with mmap.mmap(descriptor, size) as memory:
            end = time.monotonic() + 20
            while time.monotonic() < end:
                memory[:] = bytes([byte]) * size
                time.sleep(0.001)


def shared_memory() -> list[str]:
    with open("/proc/self/maps") as file:
        found = [line.split()[0] for line in file if "stem-status" in line]
    return [f"/proc/self/map_files/{_plain(place)}" for place in found]


def _plain(place: str) -> str:
    return "-".join(re.sub("^0+(?=.)", "", part) for part in place.split("-"))
