"""Call the scripts of one namespace, and wait until something changes in it."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from redis.exceptions import NoScriptError

from stem.backends.redis.connection.connections import RedisClient
from stem.backends.redis.connection.scripts import script
from stem.backends.redis.connection.subscriptions import Subscribers
from stem.backends.waiting import LOOK_SECONDS, look_and_sleep
from stem.core.errors import StoreUnavailable
from stem.core.settings.app import Settings

T = TypeVar("T")
SCAN_COUNT = 1000  # queue names per call, approximately
POLL_SECONDS = 2.0  # how often a waiting call looks without a notification


class RedisNamespace:
    def __init__(self, client: RedisClient, settings: Settings) -> None:
        self.client = client
        self.retention = settings.retention
        self.prefix = f"stem:{{{settings.namespace}}}:"
        self.subscribers = Subscribers(client)
        self._retention = pack(
            {"results": milliseconds(self.retention.results_seconds), "events": self.retention.events_count}
        )

    def key(self, name: str) -> str:
        return self.prefix + name

    def now(self) -> float:
        """The server's clock."""
        seconds, micros = self.client.call("TIME")
        return int(seconds) + int(micros) / 1_000_000

    def run(
        self, name: str, given: Any, *more: bytes, within: float | None = None, through: RedisClient | None = None
    ) -> Any:
        """Run a script and return the server's reply, through the store's own client or another one."""
        client = through or self.client
        source, digest = script(name)
        arguments = (1, self.prefix, pack(given), self._retention, *more)
        try:
            return client.call(b"EVALSHA", digest, *arguments, within=within)
        except NoScriptError:
            return client.call(b"EVAL", source, *arguments, within=within)

    def wait(
        self,
        channels: Sequence[str],
        look: Callable[[float], T],
        timeout_seconds: float,
        *,
        is_news: Callable[[bytes], bool] = lambda _: True,
        pause: Callable[[], float] = lambda: POLL_SECONDS,
        on_news: T | None = None,
        is_known: bool = False,
        stays_subscribed: bool = False,
        is_off: Callable[[], bool] = lambda: False,
    ) -> T | None:
        """Return the first true answer of `look`, or a false one when the time is up.

        `look` gets the seconds left. The channels are subscribed before the second look, so that no change falls between looking
        and sleeping. `pause` says how soon to look again without a message. With `on_news`, a message for which `is_news` holds
        ends the wait with that value. `is_known` leaves out the first looks if the connection stayed subscribed since the last
        one and no message came. `is_off` is polled: true ends the sleep and calls for a look.
        """
        end = time.monotonic() + timeout_seconds
        seen = None if is_known else look(max(LOOK_SECONDS, timeout_seconds))
        if seen or (left := end - time.monotonic()) <= 0:
            return seen
        subscribed = [self.prefix + channel for channel in channels]
        try:
            with self.subscribers.open(subscribed, within=left, stays_subscribed=stays_subscribed) as subscriber:
                is_known = is_known and subscriber.has_missed_nothing

                def sleep(left: float) -> T | None:
                    return on_news if subscriber.listen(min(left, POLL_SECONDS, pause()), is_news, is_off) else None

                return look_and_sleep(look, sleep, end, lambda: self.client.is_closed, is_known=is_known)
        except StoreUnavailable:
            # If the caller's time is shorter than the server's deadline, running out of it is no failure of the server.
            is_over = time.monotonic() >= end and timeout_seconds < self.client.timeout_seconds
            if not is_over and not self.client.is_closed:
                raise
            return None

    def known_queues(self) -> Iterator[list[str]]:
        """The queues that something was pushed to, page by page, so as not to block the server. A name may come twice."""
        yield from self._scan("SSCAN", "queues", 1)

    def occupied_queues(self) -> Iterator[list[str]]:
        """The queues that may hold a waiting, running or dead task, page by page. A name may come twice."""
        yield from self.known_queues()
        yield from self._scan("HSCAN", "running", 2)
        yield from self._scan("HSCAN", "buried", 2)

    def _scan(self, command: str, key: str, every: int) -> Iterator[list[str]]:
        """`every`: 2 for a hash, which answers with names and values in turn."""
        cursor = b"0"
        while True:
            cursor, found = self.client.call(command, self.key(key), cursor, "COUNT", SCAN_COUNT)
            if found:
                yield [name.decode() for name in found[::every]]
            if cursor == b"0":
                return


def pack(value: Any) -> bytes:
    return _encoder.encode(value)


def microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)


def milliseconds(seconds: float) -> int:
    return math.ceil(seconds * 1000)


_encoder = msgspec.msgpack.Encoder()
