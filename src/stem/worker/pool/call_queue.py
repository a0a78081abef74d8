"""Calls that other threads leave for the thread that waits at a selector."""

import selectors
import socket
from collections import deque
from collections.abc import Callable
from functools import partial


class CallQueue:
    """Any thread posts calls; the selector's thread wakes up and makes them."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._calls: deque[Callable[[], object]] = deque()
        self._awake, self._waker = socket.socketpair()
        self._awake.setblocking(False)

    def open(self) -> None:
        self._selector.register(self._awake, selectors.EVENT_READ, self._clear)

    def post(self, call: Callable[[], object]) -> None:
        self._calls.append(call)
        try:  # noqa: SIM105 - cheaper, and done for every task
            self._waker.send(b"!", socket.MSG_DONTWAIT)
        except OSError:
            pass  # full: the thread is awake already; closed: it has ended

    def post_after_select(self, call: Callable[[], object]) -> None:
        """Post a call that is made after whatever is readable now: in a round whose select has not begun yet."""
        self.post(partial(self.post, call))

    def make_all(self) -> None:
        """Make the calls posted so far; what they post themselves is left for the next round."""
        for _ in range(len(self._calls)):
            self._calls.popleft()()

    def close(self) -> None:
        self._awake.close()
        self._waker.close()

    def _clear(self) -> None:
        try:  # noqa: SIM105 - as above
            self._awake.recv(4096)
        except BlockingIOError:
            pass
