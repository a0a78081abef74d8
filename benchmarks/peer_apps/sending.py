"""What the apps of the comparison share: the mark that a no-op leaves, and the loop that enqueues."""

import json
import os
import sys
import time
from collections.abc import Callable

_file: int | None = None


def mark() -> None:
    """Append one byte to the file whose size the benchmark watches: the same cost, about a microsecond, for everybody."""
    global _file
    if _file is None:
        _file = os.open(os.environ["PEER_MARKS"], os.O_WRONLY | os.O_APPEND)
    os.write(_file, b".")


def send(enqueue: Callable[[int], object]) -> None:
    """Enqueue one by one as many as the command line says; prints the seconds and the CPU seconds that it took."""
    began_at, cpu = time.perf_counter(), time.process_time()
    for number in range(int(sys.argv[1])):
        enqueue(number)
    print(json.dumps([time.perf_counter() - began_at, time.process_time() - cpu]))
