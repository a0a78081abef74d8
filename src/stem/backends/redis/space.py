"""One namespace on one server: how its scripts are called, and how to sleep until something changes there."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from redis.exceptions import NoScriptError

from stem.backends.redis.ears import Ears
from stem.backends.redis.link import Link
from stem.backends.redis.scripts import script
from stem.core.config import Settings
from stem.core.errors import StoreUnavailable

T = TypeVar("T")
POLL_SECONDS = 2.0  # stands behind every notification
LOOK_SECONDS = 1.0  # a look gets at least this long, however little the caller's time is: a busy server is not gone


class Space:
    def __init__(self, link: Link, settings: Settings) -> None:
        self.link = link
        self.retention = settings.retention
        self.prefix = f"stem:{{{settings.namespace}}}:"
        self.ears = Ears(link)
        self._retention = pack(
            {"results": milliseconds(self.retention.results_seconds), "events": self.retention.events_count}
        )

    def key(self, name: str) -> str:
        return self.prefix + name

    def now(self) -> float:
        """The server's clock."""
        seconds, micros = self.link.call("TIME")
        return int(seconds) + int(micros) / 1_000_000

    def run(self, name: str, given: Any, *more: bytes, within: float | None = None, through: Link | None = None) -> Any:
        """The script's reply as the server sent it. `through`: another link to it than the store's own."""
        link = through or self.link
        source, digest = script(name)
        arguments = (1, self.prefix, pack(given), self._retention, *more)
        try:
            return link.call(b"EVALSHA", digest, *arguments, within=within)
        except NoScriptError:
            return link.call(b"EVAL", source, *arguments, within=within)

    def wait(
        self,
        channels: Sequence[str],
        look: Callable[[float], T],
        *,
        timeout_seconds: float,
        is_news: Callable[[bytes], bool] = lambda _: True,
        pause: Callable[[T], float] = lambda _: POLL_SECONDS,
        on_news: T | None = None,
        known: T | None = None,
        stays_tuned: bool = False,
        is_off: Callable[[], bool] = lambda: False,
    ) -> T:
        """The first true thing that `look` sees, or its last false one when the time is up.

        `look` gets the seconds left. Nothing is missed between looking and sleeping: the ear is open before the second
        look. `pause` says how soon to look again without any news. Where `on_news` is given, news are answer enough. `known`
        stands for the first looks, if the ear was open when that was seen, and has heard nothing since. `is_off` is asked now and
        then: it ends the sleep, and calls for a look.
        """
        end = time.monotonic() + timeout_seconds
        seen = look(max(LOOK_SECONDS, timeout_seconds)) if known is None else known
        if seen or (left := end - time.monotonic()) <= 0:
            return seen
        tuned = [self.prefix + channel for channel in channels]
        try:
            with self.ears.open(tuned, within=left, stays_tuned=stays_tuned) as ear:
                is_known = known is not None and ear.has_missed_nothing
                while True:
                    if not is_known:
                        seen = look(max(LOOK_SECONDS, end - time.monotonic()))
                    is_known = False
                    left = end - time.monotonic()
                    if seen or left <= 0 or self.link.is_closed:
                        return seen
                    if ear.listen(min(left, POLL_SECONDS, pause(seen)), is_news, is_off) and on_news is not None:
                        return on_news
        except StoreUnavailable:
            # The caller's time may be shorter than the server's: what ran out first is no fault of the server's.
            is_over = time.monotonic() >= end and timeout_seconds < self.link.timeout_seconds
            if not is_over and not self.link.is_closed:
                raise
            return seen


def pack(value: Any) -> bytes:
    return _encoder.encode(value)


def microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)


def milliseconds(seconds: float) -> int:
    return math.ceil(seconds * 1000)


_encoder = msgspec.msgpack.Encoder()
