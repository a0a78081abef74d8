"""How a running task reaches its supervisor: through the status block and over the stream."""

import socket
from collections.abc import Sequence
from threading import Lock
from typing import Any

import msgspec

from stem.client.canvas.values import StoredValue
from stem.client.run.context import StoppedBy
from stem.contracts.steps import Step
from stem.core import errors
from stem.core.delivery import Lease
from stem.core.envelope import Push, Receipt
from stem.core.errors import SoftTimeLimitExceeded, StemError, StoreUnavailable, TaskRevoked
from stem.runtime.framing import read_frame
from stem.worker.isolate import wire
from stem.worker.isolate.status_block import REVOKED, SOFT_LIMIT, STOPPED, StatusBlock


class SupervisorStream:
    """The isolate's end of the stream. Threads may share it: a request holds the lock until its reply has arrived."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._lock = Lock()

    def tell(self, message: wire.Message) -> None:
        self.send(wire.encode(message))

    def send(self, frame: bytes) -> None:
        with self._lock:
            self._stream.sendall(frame)

    def close(self) -> None:
        self._stream.close()

    def ask(self, message: wire.Message) -> bytes:
        with self._lock:
            self._stream.sendall(wire.encode(message))
            return read_frame(self._stream)


class RunChannel:
    """The channel of one run."""

    __slots__ = ("_status", "_stream", "number", "progress", "slot")

    def __init__(self, status: StatusBlock, stream: SupervisorStream, slot: int, number: int) -> None:
        self._status = status
        self._stream = stream
        self.slot = slot
        self.number = number
        self.progress = b""  # the latest; sent with the ending, since the supervisor may not have read it

    def beat(self, progress: dict[str, Any] | None) -> None:
        self.check()
        encoded = b"" if progress is None else msgspec.json.encode(progress)
        self.progress = encoded or self.progress
        self._status.beat(self.slot, encoded)

    def extend(self, seconds: float) -> None:
        self.check()
        self._stream.tell(wire.ExtendLease(self.number, seconds))

    def push(self, pushes: Sequence[Push]) -> list[Receipt]:
        answer = wire.decode_pushed(self._stream.ask(wire.PushRequest(wire.encode_pushes(list(pushes)))))
        if answer.error is not None:
            raise _error(*answer.error)
        return answer.receipts

    def steps(self, task_id: str) -> list[Step]:
        return self._ask_steps(wire.StepsRequest(task_id)).steps

    def record_step(self, lease: Lease, name: str, payload: msgspec.Raw) -> bool:
        return self._ask_steps(wire.RecordStep(lease, name, bytes(payload))).is_recorded

    def _ask_steps(self, request: wire.Request) -> wire.StepsReply:
        answer = wire.decode_steps(self._stream.ask(request))
        if answer.error is not None:
            raise _error(*answer.error)
        return answer

    def records(self, task_ids: Sequence[str]) -> dict[str, StoredValue]:
        answer = wire.decode_records(self._stream.ask(wire.RecordsRequest(list(task_ids))))
        if answer.error is not None:
            raise _error(*answer.error)
        return {stored.id: stored for stored in answer.records}

    def check(self) -> None:
        """Raises TaskRevoked once the supervisor wants the run to end."""
        if self._status.interruption(self.slot, self.number) in (REVOKED, STOPPED):
            raise TaskRevoked("revoked")

    def stopped_by(self) -> StoppedBy:
        match self._status.interruption(self.slot, self.number):
            case why if why == REVOKED:
                return "revoke"
            case why if why == STOPPED:
                return "worker"
            case _:
                return ""

    def interruption(self) -> BaseException | None:
        """The exception to raise in the handler now."""
        match self._status.interruption(self.slot, self.number):
            case 0:
                return None
            case why if why == SOFT_LIMIT:
                return SoftTimeLimitExceeded("The task has reached its soft time limit; finish before the hard limit.")
            case _:
                return TaskRevoked("revoked")


def _error(name: str, sentence: str) -> StemError:
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, StemError):
        return kind(sentence)
    return StoreUnavailable(sentence)
