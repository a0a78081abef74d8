"""Connections that wait for their next use. After a fork the child begins with none, and leaves its parent's alone."""

import os
from threading import Lock
from typing import Any, Protocol

from redis import exceptions


class Wire(Protocol):
    """The few members of the client library's connection that we use."""

    socket_timeout: float

    def connect(self) -> None: ...
    def disconnect(self) -> None: ...
    def send_command(self, *command: Any) -> None: ...
    def can_read(self, timeout: float = 0) -> bool: ...
    def read_response(self) -> Any: ...


class Pool:
    def __init__(self, keeps: int | None = None) -> None:
        self.is_closed = False
        self._keeps = keeps
        self._pid = os.getpid()
        self._lock = Lock()
        self._idle: list[Wire] = []

    def take(self) -> Wire | None:
        """The one that was used last, or none."""
        self._own()
        with self._lock:
            return self._idle.pop() if self._idle else None

    def give(self, wire: Wire) -> None:
        """Keep it; it is disconnected if there are enough, or the pool is closed."""
        self._own()
        with self._lock:
            if not self.is_closed and (self._keeps is None or len(self._idle) < self._keeps):
                self._idle.append(wire)
                return
        wire.disconnect()

    def drop(self) -> None:
        """Disconnect all that are idle."""
        self._own()
        with self._lock:
            idle, self._idle = self._idle, []
        for wire in idle:
            wire.disconnect()

    def close(self) -> None:
        """From here on none is kept."""
        self._own()
        with self._lock:
            self.is_closed = True
        self.drop()

    def _own(self) -> None:
        if self._pid != os.getpid():
            self._pid, self._lock, self._idle = os.getpid(), Lock(), []


def answer(wire: Wire, seconds: float) -> Any:
    if not wire.can_read(seconds):
        raise TimeoutError
    return wire.read_response()


def is_silent(wire: Wire) -> bool:
    """False for a connection that the server has closed, or that still has something to say."""
    try:
        return not wire.can_read(0)
    except exceptions.ConnectionError:
        return False
