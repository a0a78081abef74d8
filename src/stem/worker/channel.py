"""How a running task reaches its supervisor: through the shared cell, and along the line."""

import socket
from collections.abc import Sequence
from threading import Lock
from typing import Any

import msgspec

from stem.core import errors
from stem.core.envelope import Push, Receipt
from stem.core.errors import SoftTimeLimitExceeded, StemError, StoreUnavailable, TaskRevoked
from stem.worker import wire
from stem.worker.cell import REVOKED, SOFT_LIMIT, Cell


class Line:
    """The isolate's end of the line. Threads may share it: a question keeps it until the answer is there."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._lock = Lock()

    def tell(self, word: wire.Word) -> None:
        self.send(wire.frame(word))

    def send(self, frame: bytes) -> None:
        with self._lock:
            self._stream.sendall(frame)

    def close(self) -> None:
        self._stream.close()

    def ask(self, word: wire.Word) -> bytes:
        with self._lock:
            self._stream.sendall(wire.frame(word))
            return wire.read_frame(self._stream)


class RunChannel:
    """The channel of one run."""

    __slots__ = ("_cell", "_line", "number", "progress", "slot")

    def __init__(self, cell: Cell, line: Line, slot: int, number: int) -> None:
        self._cell = cell
        self._line = line
        self.slot = slot
        self.number = number
        self.progress = b""  # the last word; it goes with the ending, for nobody may have looked since

    def beat(self, progress: dict[str, Any] | None) -> None:
        self.check()
        said = b"" if progress is None else msgspec.json.encode(progress)
        self.progress = said or self.progress
        self._cell.beat(self.slot, said)

    def extend(self, seconds: float) -> None:
        self.check()
        self._line.tell(wire.Extend(self.number, seconds))

    def push(self, pushes: Sequence[Push]) -> list[Receipt]:
        answer = wire.decode_pushed(self._line.ask(wire.AskPush(wire.encode_pushes(list(pushes)))))
        if answer.error is not None:
            raise _error(*answer.error)
        return answer.receipts

    def check(self) -> None:
        """Raises TaskRevoked once the supervisor wants the run to end."""
        if self._cell.interruption(self.slot, self.number) == REVOKED:
            raise TaskRevoked("revoked")

    def interruption(self) -> BaseException | None:
        """What the handler is to be told now."""
        match self._cell.interruption(self.slot, self.number):
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
