"""Connections to one Redis server: pooled, each call with a deadline, made anew after a fork or a failover."""

import time
from typing import Any

from redis import connection, exceptions
from redis.connection import Connection, SSLConnection

from stem.backends.redis.address import arguments
from stem.backends.redis.pool import Pool, Wire, answer, is_silent
from stem.backends.redis.refusals import explain, is_demoted, is_late, is_lost
from stem.core.config import Settings, masked
from stem.core.errors import StoreUnavailable

EARS_KEPT = 8
DOUBT_SECONDS = 0.25  # a server that is there answers sooner
# To name the library to the server takes two round trips a connection, and is left out as the library's version has it.
# Not over TLS: there it is the exchange by which a server that will not have our certificate says so.
NAMELESS: dict[str, None] = (
    {"driver_info": None} if hasattr(connection, "DriverInfo") else {"lib_name": None, "lib_version": None}
)


class Link:
    def __init__(self, url: str, settings: Settings) -> None:
        self.place = masked(url)
        self.timeout_seconds = settings.timeout_seconds
        self.ears = Pool(EARS_KEPT)  # see `ears`
        self.tuned = Pool(1)
        self._wires = Pool()
        self._class: Any = SSLConnection if url.startswith("rediss:") else Connection
        self._name = {} if self._class is SSLConnection else NAMELESS
        self._seed = arguments(url, settings)
        self._arguments = self._seed

    @property
    def is_closed(self) -> bool:
        return self._wires.is_closed

    def call(self, *command: Any, within: float | None = None) -> Any:
        """The server's reply, by its deadline. Raises NoScriptError, StoreUnavailable, StoreRefused."""
        seconds = self._seconds(within)
        end = time.monotonic() + seconds
        try:
            try:
                return self._call(command, seconds, self._take())
            except exceptions.ResponseError as error:
                if not self._is_elsewhere(error):
                    raise
            # Safe to say again: the server has refused it, so nothing was done.
            return self._call(command, self._seconds(end - time.monotonic()), None)
        except exceptions.NoScriptError:
            raise
        except (exceptions.RedisError, OSError) as error:
            self.heed(error, seconds)
            raise explain(error, self.place, seconds) from error

    def open(self, within: float | None = None) -> Wire:
        """A connection of the caller's own, connected. Raises StoreUnavailable once closed, and the client library's errors."""
        if self.is_closed:
            raise StoreUnavailable(f"The store at {self.place} has been closed; connect to it again.")
        seconds = self._seconds(within)
        wire: Wire = self._class(
            **self._arguments, **self._name, socket_timeout=seconds, socket_connect_timeout=seconds, protocol=2
        )
        wire.connect()
        return wire

    def heed(self, error: Exception, seconds: float) -> None:
        """What befell one connection may have befallen the idle ones; that a call had hardly any time says nothing."""
        if is_lost(error) and not (is_late(error) and seconds < DOUBT_SECONDS):
            self._begin_anew()

    def close(self) -> None:
        self._wires.close()
        self.ears.close()
        self.tuned.close()

    def _call(self, command: tuple[Any, ...], seconds: float, idle: Wire | None) -> Any:
        wire = idle or self.open(seconds)
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
        while (wire := self._wires.take()) is not None:
            if is_silent(wire):
                return wire
            wire.disconnect()
        return None

    def _give_back(self, wire: Wire) -> None:
        if wire.socket_timeout == self.timeout_seconds:
            self._wires.give(wire)
        else:
            wire.disconnect()

    def _is_elsewhere(self, error: exceptions.ResponseError) -> bool:
        """Whether a new connection may reach the server that takes the command; if so the next one will."""
        if is_demoted(error):
            self._begin_anew()
            return True
        if isinstance(error, exceptions.MovedError):
            # A namespace lies in one slot, so on a cluster we talk to one node: the one that we are sent to.
            host = error.host or self._arguments["host"]  # a node that does not know its own name leaves it out
            self._arguments = self._seed | {"host": host, "port": error.port}
            self._drop()
            return True
        return False

    def _begin_anew(self) -> None:
        """The next call connects to the URL again: whatever is idle may lead to a server that is gone or demoted."""
        self._arguments = self._seed
        self._drop()

    def _drop(self) -> None:
        self._wires.drop()
        self.ears.drop()
        self.tuned.drop()

    def _seconds(self, within: float | None) -> float:
        return self.timeout_seconds if within is None else max(0.001, min(within, self.timeout_seconds))
