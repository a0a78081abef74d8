"""Answer the requests of isolates: a body too large for the inbox, a task to enqueue, the values of other tasks. Slow, so in
threads of its own."""

import logging
import select
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from stem.client.canvas.values import stored_value
from stem.contracts.broker import Broker
from stem.contracts.results import Results
from stem.core.errors import StemError
from stem.runtime.framing import frame
from stem.worker.fork.client import IsolateHandle
from stem.worker.isolate import wire

log = logging.getLogger("stem.worker")

ANSWER_SECONDS = 30.0


class IsolateRequests:
    def __init__(self, broker: Broker, results: Results) -> None:
        self._broker = broker
        self._results = results
        self._threads: ThreadPoolExecutor | None = None  # started by the first request

    def start(self) -> None: ...

    def stop(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def answer(self, handle: IsolateHandle, request: wire.Request, body: bytes) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(4, thread_name_prefix="isolate-requests")
        match request:
            case wire.BodyRequest():
                self._threads.submit(self._send_answer, handle, lambda: body)
            case wire.PushRequest(pushes):
                self._threads.submit(self._send_answer, handle, lambda: self._push(pushes))
            case wire.RecordsRequest(ids):
                self._threads.submit(self._send_answer, handle, lambda: self._read(ids))

    def _push(self, pushes: bytes) -> bytes:
        try:
            reply = wire.PushReply(self._broker.push(wire.decode_pushes(pushes)))
        except StemError as error:
            reply = wire.PushReply(error=(type(error).__name__, str(error)))
        return msgspec.json.encode(reply)

    def _read(self, ids: list[str]) -> bytes:
        try:
            found = self._results.get(ids, past_retention=True)
            reply = wire.RecordsReply([stored_value(record) for record in found.values()])
        except StemError as error:
            reply = wire.RecordsReply(error=(type(error).__name__, str(error)))
        return msgspec.json.encode(reply)

    def _send_answer(self, handle: IsolateHandle, answer: Callable[[], bytes]) -> None:
        try:
            _send(handle.stream, frame(answer()))
        except OSError as error:
            log.debug("isolate.reply_failed pid=%d: %s", handle.pid, error)  # it has exited, or will be replaced


def _send(stream: socket.socket, data: bytes) -> None:
    """Send all of it over a non-blocking socket, within ANSWER_SECONDS: an isolate may be frozen."""
    view, end = memoryview(data), time.monotonic() + ANSWER_SECONDS
    while view:
        try:
            view = view[stream.send(view, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) :]
        except BlockingIOError:
            _, writable, _ = select.select([], [stream], [], max(0.0, end - time.monotonic()))
            if not writable:
                raise TimeoutError("the isolate does not read") from None
