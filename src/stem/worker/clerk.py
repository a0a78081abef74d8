"""Answers what isolates ask: a body too large for the inbox, a task to be enqueued. Slow work, so in threads of its own."""

import logging
import select
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from stem.contracts.broker import Broker
from stem.core.errors import StemError
from stem.worker import wire
from stem.worker.nursery import Child

log = logging.getLogger("stem.worker")

ANSWER_SECONDS = 30.0


class Clerk:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._threads: ThreadPoolExecutor | None = None  # many workers are never asked

    def start(self) -> None: ...

    def stop(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def asked(self, child: Child, word: wire.AskBody | wire.AskPush, body: bytes) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(4, thread_name_prefix="clerk")
        match word:
            case wire.AskBody():
                self._threads.submit(self._answer, child, lambda: body)
            case wire.AskPush(pushes):
                self._threads.submit(self._answer, child, lambda: self._push(pushes))

    def _push(self, pushes: bytes) -> bytes:
        try:
            told = wire.Pushed(self._broker.push(wire.decode_pushes(pushes)))
        except StemError as error:
            told = wire.Pushed(error=(type(error).__name__, str(error)))
        return msgspec.json.encode(told)

    def _answer(self, child: Child, answer: Callable[[], bytes]) -> None:
        try:
            _send(child.line, wire.framed(answer()))
        except OSError as error:
            log.debug("isolate.deaf pid=%d: %s", child.pid, error)  # it has died, or will be replaced


def _send(line: socket.socket, data: bytes) -> None:
    """All of it into a socket that does not block, within the time: an isolate may be frozen."""
    view, end = memoryview(data), time.monotonic() + ANSWER_SECONDS
    while view:
        try:
            view = view[line.send(view, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) :]
        except BlockingIOError:
            _, writable, _ = select.select([], [line], [], max(0.0, end - time.monotonic()))
            if not writable:
                raise TimeoutError("the isolate does not read") from None
