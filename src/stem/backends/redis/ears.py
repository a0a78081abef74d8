"""Connections that listen for notifications. One waiting call holds one; idle ones are kept, subscribed to nothing, but for one
that stays tuned in to what is waited for again and again."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from redis import exceptions

from stem.backends.redis.link import Link
from stem.backends.redis.pool import Wire, answer
from stem.backends.redis.refusals import explain

SLICE_SECONDS = 0.25  # how soon a closing store is noticed


class Ear:
    def __init__(self, link: Link, wire: Wire, *, was_tuned: bool) -> None:
        self._link = link
        self._wire = wire
        self._was_tuned = was_tuned

    @property
    def has_missed_nothing(self) -> bool:
        """It was tuned in since the last use, and nothing came."""
        return self._was_tuned

    def listen(self, seconds: float, is_news: Callable[[bytes], bool], is_off: Callable[[], bool]) -> bool:
        """Sleep until news came, the time is up, the store was closed, or the wait is off; True for the first."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._link.is_closed and not is_off():
            if self._wire.can_read(min(left, SLICE_SECONDS)) and self._heard(is_news):
                return True
        return False

    def _heard(self, is_news: Callable[[bytes], bool]) -> bool:
        """Read all that has come, so that one look answers many notifications."""
        news = False
        while True:
            kind, *_, data = self._wire.read_response()
            news = (kind == b"message" and is_news(data)) or news
            if not self._wire.can_read(0):
                return news


class Ears:
    def __init__(self, link: Link) -> None:
        self._link = link
        self._tuned: tuple[Wire, frozenset[str]] | None = None  # the one that is kept so, and to what
        self._is_in_doubt = False

    @property
    def mark(self) -> object:
        """The same object later on says that an ear has been tuned in all the time; None: there is none."""
        return self._tuned

    @contextmanager
    def open(self, channels: Sequence[str], *, within: float, stays_tuned: bool = False) -> Iterator[Ear]:
        """Whatever is published on the channels from here on is heard. Raises StoreUnavailable, StoreRefused.

        An ear that stays tuned in waits for the next call that wants to hear the same. Nobody reads meanwhile, so it is not for
        long: whoever finds that he will not wait again soon tunes it out.
        """
        seconds = min(within, self._link.timeout_seconds)
        wire: Wire | None = None
        try:
            tuned = self._take_tuned(channels) if stays_tuned else None
            wire = tuned or self._subscribed(channels, seconds)
            yield Ear(self._link, wire, was_tuned=tuned is not None)
            if stays_tuned and not self._is_in_doubt:
                self._tuned = wire, frozenset(channels)  # anew each time: who was not there cannot know what was heard
                self._link.tuned.give(wire)
                wire = None
            elif not self._is_in_doubt:
                self._rest(wire)
                wire = None
            self._is_in_doubt = False
        except (exceptions.RedisError, OSError) as error:
            self._link.heed(error, seconds)
            raise explain(error, self._link.place, seconds) from error
        finally:
            if wire is not None:
                wire.disconnect()

    def doubt(self) -> None:
        """The one that is tuned in, or that the caller uses, has missed something, or it has not been read for long."""
        if (wire := self._link.tuned.take()) is None:
            self._is_in_doubt = True
        else:
            self._tuned = None
            wire.disconnect()

    def tune_out(self) -> None:
        if self._tuned is None:
            return
        self._tuned = None
        if (wire := self._link.tuned.take()) is not None:
            try:
                self._rest(wire)
            except (exceptions.RedisError, OSError):
                wire.disconnect()

    def _take_tuned(self, channels: Sequence[str]) -> Wire | None:
        """One that hears these and has heard nothing since the last use."""
        wire, tuned = self._link.tuned.take(), self._tuned
        self._tuned = None
        if wire is None:
            return None
        try:
            if tuned == (wire, frozenset(channels)) and not wire.can_read(0):
                return wire
            self._rest(wire)
        except (exceptions.ConnectionError, OSError):
            wire.disconnect()  # it went stale while idle
        return None

    def _rest(self, wire: Wire) -> None:
        wire.send_command("UNSUBSCRIBE")
        self._link.ears.give(wire)

    def _subscribed(self, channels: Sequence[str], seconds: float) -> Wire:
        """An idle ear gets half of the time: if it has silently died, enough is left for a new one."""
        end = time.monotonic() + seconds
        while (wire := self._link.ears.take()) is not None:
            try:
                return _subscribe(wire, channels, end - seconds / 2)
            except (exceptions.TimeoutError, TimeoutError) as error:
                wire.disconnect()
                self._link.heed(error, seconds / 2)
                break
            except (exceptions.ConnectionError, OSError):
                wire.disconnect()  # it went stale while idle
        wire = self._link.open(end - time.monotonic())
        try:
            return _subscribe(wire, channels, end)
        except BaseException:
            wire.disconnect()
            raise


def _subscribe(wire: Wire, channels: Sequence[str], end: float) -> Wire:
    """Reads past what was left over from the last use, until all channels are confirmed."""
    if channels:
        wire.send_command("SUBSCRIBE", *channels)
    missing = len(set(channels))
    while missing > 0:
        kind, *_ = answer(wire, max(0.0, end - time.monotonic()))
        missing -= kind == b"subscribe"
    return wire
