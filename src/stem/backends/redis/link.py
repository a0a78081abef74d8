"""Connections to one Redis server: pooled, each call with a deadline, made anew after a fork."""

import os
import re
from threading import Lock
from typing import Any, Protocol

from redis import exceptions
from redis.connection import Connection, SSLConnection

from stem.backends.redis.address import arguments
from stem.backends.redis.refusals import explain
from stem.core.config import Settings, masked

_MOVED = re.compile(r"(?:MOVED )?\d+ (\S*):(\d+)")  # slot, host, port; some client versions drop the word


class Wire(Protocol):
    """The few members of the client library's connection that we use."""

    socket_timeout: float

    def connect(self) -> None: ...
    def disconnect(self) -> None: ...
    def send_command(self, *command: Any) -> None: ...
    def can_read(self, timeout: float = 0) -> bool: ...
    def read_response(self) -> Any: ...


class Link:
    def __init__(self, url: str, settings: Settings) -> None:
        self.place = masked(url)
        self.timeout_seconds = settings.timeout_seconds
        self.is_closed = False
        self._class: Any = SSLConnection if url.startswith("rediss:") else Connection
        self._arguments = arguments(url, settings)
        self._lock = Lock()
        self._idle: list[Wire] = []
        self._pid = os.getpid()

    def call(self, *command: Any, within: float | None = None) -> Any:
        """The server's reply, by its deadline. Raises NoScriptError, StoreUnavailable, StoreRefused."""
        try:
            try:
                return self._call(command, self._seconds(within))
            except exceptions.ResponseError as error:
                if not self._moved(str(error)):
                    raise
            return self._call(command, self._seconds(within))
        except exceptions.NoScriptError:
            raise
        except (exceptions.RedisError, OSError) as error:
            raise explain(error, self.place, self._seconds(within)) from error

    def open(self, within: float | None = None) -> Wire:
        """A connection of the caller's own, connected. Raises the client library's errors."""
        seconds = self._seconds(within)
        wire: Wire = self._class(**self._arguments, socket_timeout=seconds, socket_connect_timeout=seconds, protocol=2)
        wire.connect()
        return wire

    def close(self) -> None:
        self.is_closed = True
        with self._lock:
            idle, self._idle = self._idle, []
        for wire in idle:
            wire.disconnect()

    def _call(self, command: tuple[Any, ...], seconds: float) -> Any:
        wire = self._take() or self.open(seconds)
        try:
            wire.send_command(*command)
            reply = answer(wire, seconds)
        except exceptions.ResponseError:
            self._give_back(wire)
            raise
        except BaseException:
            wire.disconnect()  # a reply that comes late must not answer the next call
            raise
        self._give_back(wire)
        return reply

    def _take(self) -> Wire | None:
        """An idle connection that is still open, as far as can be told without asking."""
        if self._pid != os.getpid():
            self._pid, self._lock, self._idle = os.getpid(), Lock(), []
        while True:
            with self._lock:
                if not self._idle:
                    return None
                wire = self._idle.pop()
            if is_silent(wire):
                return wire
            wire.disconnect()

    def _give_back(self, wire: Wire) -> None:
        if self.is_closed or wire.socket_timeout != self.timeout_seconds:
            wire.disconnect()
            return
        with self._lock:
            self._idle.append(wire)

    def _moved(self, text: str) -> bool:
        """A namespace lies in one slot, so on a cluster we talk to one node: the one that we are sent to."""
        target = _MOVED.fullmatch(text)
        if target is None:
            return False
        host, port = target.groups()
        self._arguments = self._arguments | {"host": host or self._arguments["host"], "port": int(port)}
        with self._lock:
            idle, self._idle = self._idle, []
        for wire in idle:
            wire.disconnect()
        return True

    def _seconds(self, within: float | None) -> float:
        return self.timeout_seconds if within is None else max(0.001, min(within, self.timeout_seconds))


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
