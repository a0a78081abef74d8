"""What other threads ask of the one that waits at a selector."""

import selectors
import socket
from collections import deque
from collections.abc import Callable


class Inbox:
    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._actions: deque[Callable[[], object]] = deque()
        self._awake, self._waker = socket.socketpair()
        self._awake.setblocking(False)

    def open(self) -> None:
        self._selector.register(self._awake, selectors.EVENT_READ, self._clear)

    def post(self, action: Callable[[], object]) -> None:
        self._actions.append(action)
        try:  # noqa: SIM105 - cheaper, and every task waits for this
            self._waker.send(b"!", socket.MSG_DONTWAIT)
        except OSError:
            pass  # full: it is awake already; closed: it has ended

    def do_all(self) -> None:
        while self._actions:
            self._actions.popleft()()

    def close(self) -> None:
        self._awake.close()
        self._waker.close()

    def _clear(self) -> None:
        try:  # noqa: SIM105 - as above
            self._awake.recv(4096)
        except BlockingIOError:
            pass
