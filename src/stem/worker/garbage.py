"""While a worker runs, Python's collector looks seldom: tasks on their way through leave no cycles, and looking for some
every few hundred of them takes a tenth of a supervisor's time."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

SELDOM = 20_000  # objects more than at the last look; the interpreter's own is 700

_lock = Lock()
_workers = 0  # of this process
_before = (0, 0, 0)


@contextmanager
def sought_seldom() -> Iterator[None]:
    """Puts back what was set before, after the last worker of this process. Leaves alone who collects more seldom still."""
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
            if 0 < _before[0] < SELDOM:  # 0: it is off
                gc.set_threshold(SELDOM, *_before[1:])


def _leave() -> None:
    global _workers
    with _lock:
        _workers -= 1
        if _workers == 0 and gc.get_threshold() == (SELDOM, *_before[1:]):  # else somebody has set it since
            gc.set_threshold(*_before)
