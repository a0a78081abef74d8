"""Run the garbage collector rarely while a worker runs: tasks in flight leave no cycles, and collecting after every few
hundred of them takes a tenth of the supervisor's time."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

THRESHOLD = 20_000  # allocations between collections; Python's default is 700

_lock = Lock()
_workers = 0  # of this process
_before = (0, 0, 0)


@contextmanager
def collect_rarely() -> Iterator[None]:
    """Raise the threshold; the last worker of the process restores it. A higher threshold is left alone."""
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _before, _workers
    with _lock:
        _workers += 1
        if _workers == 1:
            _before = gc.get_threshold()
            if 0 < _before[0] < THRESHOLD:  # 0: it is off
                gc.set_threshold(THRESHOLD, *_before[1:])


def _leave() -> None:
    global _workers
    with _lock:
        _workers -= 1
        if _workers == 0 and gc.get_threshold() == (THRESHOLD, *_before[1:]):  # else somebody has set it since
            gc.set_threshold(*_before)
