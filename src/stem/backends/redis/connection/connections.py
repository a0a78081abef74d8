"""Send commands to one Redis server over pooled connections, each with a deadline; reconnect after a fork or a failover."""

import time
from typing import Any

from redis import connection, exceptions
from redis.connection import Connection, SSLConnection

from stem.backends.redis.connection.address import arguments
from stem.backends.redis.connection.errors import explain, is_demoted, is_late, is_lost
from stem.backends.redis.connection.pool import RawConnection, RedisPool, answer, is_silent
from stem.core.errors import StoreUnavailable
from stem.core.settings.app import Settings, masked

SUBSCRIBERS_KEPT = 8
STALE_SECONDS = 0.25  # a timeout shorter than this does not mean that the server is gone
# Naming the client library to the server takes two round trips per connection, so it is switched off, in the way of the
# installed version. Not over TLS: there a server that refuses our certificate says so in this exchange.
NAMELESS: dict[str, None] = (
    {"driver_info": None} if hasattr(connection, "DriverInfo") else {"lib_name": None, "lib_version": None}
)


class RedisClient:
    def __init__(self, url: str, settings: Settings) -> None:
        self.place = masked(url)
        self.timeout_seconds = settings.timeout_seconds
        self.idle_subscribers = RedisPool(SUBSCRIBERS_KEPT)
        self.kept_subscribers = RedisPool(1)
        self._idle = RedisPool()
        self._class: Any = SSLConnection if url.startswith("rediss:") else Connection
        self._name = {} if self._class is SSLConnection else NAMELESS
        self._seed = arguments(url, settings)
        self._arguments = self._seed

    @property
    def is_closed(self) -> bool:
        return self._idle.is_closed

    def call(self, *command: Any, within: float | None = None) -> Any:
        """Send a command and return the reply, within the deadline. Raises NoScriptError, StoreUnavailable, StoreRefused."""
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
            self.drop_idle_after(error, seconds)
            raise explain(error, self.place, seconds) from error

    def open(self, within: float | None = None) -> RawConnection:
        """Open a connection that the caller owns. Raises StoreUnavailable once closed, and the client library's errors."""
        if self.is_closed:
            raise StoreUnavailable(f"The store at {self.place} has been closed; connect to it again.")
        seconds = self._seconds(within)
        raw: RawConnection = self._class(
            **self._arguments, **self._name, socket_timeout=seconds, socket_connect_timeout=seconds, protocol=2
        )
        raw.connect()
        return raw

    def drop_idle_after(self, error: Exception, seconds: float) -> None:
        """Drop the idle connections after one was lost: they may be lost as well. A timeout after a short wait says nothing."""
        if is_lost(error) and not (is_late(error) and seconds < STALE_SECONDS):
            self._begin_anew()

    def close(self) -> None:
        self._idle.close()
        self.idle_subscribers.close()
        self.kept_subscribers.close()

    def _call(self, command: tuple[Any, ...], seconds: float, idle: RawConnection | None) -> Any:
        raw = idle or self.open(seconds)
        try:
            raw.send_command(*command)
            reply = answer(raw, seconds)
        except exceptions.ResponseError:
            self._give_back(raw)
            raise
        except BaseException:
            raw.disconnect()  # a reply that comes late must not answer the next call
            raise
        self._give_back(raw)
        return reply

    def _take(self) -> RawConnection | None:
        """Take an idle connection that is still open, as far as can be told without a round trip."""
        while (raw := self._idle.take()) is not None:
            if is_silent(raw):
                return raw
            raw.disconnect()
        return None

    def _give_back(self, raw: RawConnection) -> None:
        if raw.socket_timeout == self.timeout_seconds:
            self._idle.give(raw)
        else:
            raw.disconnect()

    def _is_elsewhere(self, error: exceptions.ResponseError) -> bool:
        """Whether another server takes the command. If so, the next connection goes there."""
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
        """Connect to the URL again with the next call: idle connections may lead to a server that is gone or demoted."""
        self._arguments = self._seed
        self._drop()

    def _drop(self) -> None:
        self._idle.drop()
        self.idle_subscribers.drop()
        self.kept_subscribers.drop()

    def _seconds(self, within: float | None) -> float:
        return self.timeout_seconds if within is None else max(0.001, min(within, self.timeout_seconds))
