"""Answer the requests of isolates: large bodies, tasks to enqueue, values of other tasks, durable steps. Slow, so in threads
of its own."""

import logging
import select
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from stem.client.canvas.values import stored_value
from stem.contracts.store import Store
from stem.core.errors import StemError
from stem.runtime.framing import frame
from stem.worker.fork.client import IsolateHandle
from stem.worker.isolate import wire

log = logging.getLogger("stem.worker")

ANSWER_SECONDS = 30.0

R = TypeVar("R", wire.PushReply, wire.RecordsReply, wire.StepsReply)


class IsolateRequests:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads: ThreadPoolExecutor | None = None  # started by the first request

    def start(self) -> None: ...

    def stop(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def answer(self, handle: IsolateHandle, request: wire.Request, body: bytes) -> None:
        match request:
            case wire.BodyRequest():
                self._submit(handle, lambda: body)
            case wire.PushRequest(pushes):
                self._submit(handle, lambda: _reply(wire.PushReply, lambda: self._push(pushes)))
            case wire.RecordsRequest(ids):
                self._submit(handle, lambda: _reply(wire.RecordsReply, lambda: self._read(ids)))
            case wire.StepsRequest(task_id):
                self._submit(handle, lambda: _reply(wire.StepsReply, lambda: self._steps(task_id)))
            case wire.RecordStep():
                self._submit(handle, lambda: _reply(wire.StepsReply, lambda: self._record(request)))

    def _push(self, pushes: bytes) -> wire.PushReply:
        return wire.PushReply(self._store.broker.push(wire.decode_pushes(pushes)))

    def _read(self, ids: list[str]) -> wire.RecordsReply:
        found = self._store.results.get(ids, past_retention=True)
        return wire.RecordsReply([stored_value(record) for record in found.values()])

    def _steps(self, task_id: str) -> wire.StepsReply:
        return wire.StepsReply(self._store.steps.all(task_id))

    def _record(self, step: wire.RecordStep) -> wire.StepsReply:
        is_recorded = self._store.steps.record(step.lease, step.name, msgspec.Raw(step.payload))
        return wire.StepsReply(is_recorded=is_recorded)

    def _submit(self, handle: IsolateHandle, answer: Callable[[], bytes]) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(4, thread_name_prefix="isolate-requests")
        self._threads.submit(self._send_answer, handle, answer)

    def _send_answer(self, handle: IsolateHandle, answer: Callable[[], bytes]) -> None:
        try:
            _send(handle.stream, frame(answer()))
        except OSError as error:
            log.debug("isolate.reply_failed pid=%d: %s", handle.pid, error)  # it has exited, or will be replaced


def _reply(kind: type[R], answer: Callable[[], R]) -> bytes:
    """Encode the answer, or the error that there was instead."""
    try:
        reply = answer()
    except StemError as error:
        reply = kind(error=(type(error).__name__, str(error)))
    return msgspec.json.encode(reply)


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
