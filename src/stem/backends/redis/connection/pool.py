"""Keep idle connections to Redis. A forked child starts with an empty pool and leaves its parent's connections alone."""

import os
from threading import Lock
from typing import Any, Protocol

from redis import exceptions


class RawConnection(Protocol):
    """The members of redis-py's Connection that Stem uses."""

    socket_timeout: float

    def connect(self) -> None: ...
    def disconnect(self) -> None: ...
    def send_command(self, *command: Any) -> None: ...
    def can_read(self, timeout: float = 0) -> bool: ...
    def read_response(self) -> Any: ...


class RedisPool:
    def __init__(self, keeps: int | None = None) -> None:
        self.is_closed = False
        self._keeps = keeps
        self._pid = os.getpid()
        self._lock = Lock()
        self._idle: list[RawConnection] = []

    def take(self) -> RawConnection | None:
        """Take the connection that was used last, if there is one."""
        self._own()
        with self._lock:
            return self._idle.pop() if self._idle else None

    def give(self, raw: RawConnection) -> None:
        """Keep the connection, or disconnect it if the pool is full or closed."""
        self._own()
        with self._lock:
            if not self.is_closed and (self._keeps is None or len(self._idle) < self._keeps):
                self._idle.append(raw)
                return
        raw.disconnect()

    def drop(self) -> None:
        """Disconnect all idle connections."""
        self._own()
        with self._lock:
            idle, self._idle = self._idle, []
        for raw in idle:
            raw.disconnect()

    def close(self) -> None:
        """Disconnect all idle connections and keep none from now on."""
        self._own()
        with self._lock:
            self.is_closed = True
        self.drop()

    def _own(self) -> None:
        if self._pid != os.getpid():
            self._pid, self._lock, self._idle = os.getpid(), Lock(), []


def answer(raw: RawConnection, seconds: float) -> Any:
    if not raw.can_read(seconds):
        raise TimeoutError
    return raw.read_response()


def is_silent(raw: RawConnection) -> bool:
    """Whether an idle connection is still open and has nothing left to read."""
    try:
        return not raw.can_read(0)
    except exceptions.ConnectionError:
        return False
