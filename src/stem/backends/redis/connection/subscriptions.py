"""Subscribe connections to channels for as long as a call waits.

Idle connections are kept unsubscribed. One stays subscribed between waits, for a worker that waits for the same again and again.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from redis import exceptions

from stem.backends.redis.connection.connections import RedisClient
from stem.backends.redis.connection.errors import explain
from stem.backends.redis.connection.pool import RawConnection, answer

SLICE_SECONDS = 0.25  # how soon a closing store is noticed


class Subscriber:
    def __init__(self, client: RedisClient, raw: RawConnection, *, was_subscribed: bool) -> None:
        self._client = client
        self._wire = raw
        self._was_subscribed = was_subscribed

    @property
    def has_missed_nothing(self) -> bool:
        """Whether the connection stayed subscribed since its last use, and no message came."""
        return self._was_subscribed

    def listen(self, seconds: float, is_news: Callable[[bytes], bool], is_off: Callable[[], bool]) -> bool:
        """Sleep until a relevant message arrives (True), the time is up, the store is closed or the wait is called off."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._client.is_closed and not is_off():
            if self._wire.can_read(min(left, SLICE_SECONDS)) and self._heard(is_news):
                return True
        return False

    def _heard(self, is_news: Callable[[bytes], bool]) -> bool:
        """Read all messages that have arrived, so that one look at the store answers many notifications."""
        news = False
        while True:
            kind, *_, data = self._wire.read_response()
            news = (kind == b"message" and is_news(data)) or news
            if not self._wire.can_read(0):
                return news


class Subscribers:
    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._subscribed_to: tuple[RawConnection, frozenset[str]] | None = None
        self._is_stale = False

    @property
    def token(self) -> object:
        """An object that stays the same for as long as one connection stays subscribed. None if none is."""
        return self._subscribed_to

    @contextmanager
    def open(self, channels: Sequence[str], *, within: float, stays_subscribed: bool = False) -> Iterator[Subscriber]:
        """Subscribe a connection: whatever is published on the channels from here on is received.

        With `stays_subscribed` the connection stays so for the next call with the same channels. Nobody reads it meanwhile, so a
        caller that will not wait again soon calls `unsubscribe`. Raises StoreUnavailable, StoreRefused.
        """
        seconds = min(within, self._client.timeout_seconds)
        raw: RawConnection | None = None
        try:
            subscribed = self._take_subscribed(channels) if stays_subscribed else None
            raw = subscribed or self._subscribed(channels, seconds)
            yield Subscriber(self._client, raw, was_subscribed=subscribed is not None)
            if stays_subscribed and not self._is_stale:
                self._subscribed_to = (
                    raw,
                    frozenset(channels),
                )
                self._client.kept_subscribers.give(raw)
                raw = None
            elif not self._is_stale:
                self._rest(raw)
                raw = None
            self._is_stale = False
        except (exceptions.RedisError, OSError) as error:
            self._client.drop_idle_after(error, seconds)
            raise explain(error, self._client.place, seconds) from error
        finally:
            if raw is not None:
                raw.disconnect()

    def disconnect_stale(self) -> None:
        """Disconnect the subscribed connection, because it missed a message."""
        if (raw := self._client.kept_subscribers.take()) is None:
            self._is_stale = True
        else:
            self._subscribed_to = None
            raw.disconnect()

    def unsubscribe(self) -> None:
        if self._subscribed_to is None:
            return
        self._subscribed_to = None
        if (raw := self._client.kept_subscribers.take()) is not None:
            try:
                self._rest(raw)
            except (exceptions.RedisError, OSError):
                raw.disconnect()

    def _take_subscribed(self, channels: Sequence[str]) -> RawConnection | None:
        """The connection that stayed subscribed to these channels, if no message has come on it."""
        raw, subscribed = self._client.kept_subscribers.take(), self._subscribed_to
        self._subscribed_to = None
        if raw is None:
            return None
        try:
            if subscribed == (raw, frozenset(channels)) and not raw.can_read(0):
                return raw
            self._rest(raw)
        except (exceptions.ConnectionError, OSError):
            raw.disconnect()  # stale
        return None

    def _rest(self, raw: RawConnection) -> None:
        raw.send_command("UNSUBSCRIBE")
        self._client.idle_subscribers.give(raw)

    def _subscribed(self, channels: Sequence[str], seconds: float) -> RawConnection:
        """Subscribe an idle connection or a new one. An idle one gets half of the time, in case it has silently died."""
        end = time.monotonic() + seconds
        while (raw := self._client.idle_subscribers.take()) is not None:
            try:
                return _subscribe(raw, channels, end - seconds / 2)
            except (exceptions.TimeoutError, TimeoutError) as error:
                raw.disconnect()
                self._client.drop_idle_after(error, seconds / 2)
                break
            except (exceptions.ConnectionError, OSError):
                raw.disconnect()  # stale
        raw = self._client.open(end - time.monotonic())
        try:
            return _subscribe(raw, channels, end)
        except BaseException:
            raw.disconnect()
            raise


def _subscribe(raw: RawConnection, channels: Sequence[str], end: float) -> RawConnection:
    """Subscribe, and skip what is left over from the last use until all channels are confirmed."""
    if channels:
        raw.send_command("SUBSCRIBE", *channels)
    missing = len(set(channels))
    while missing > 0:
        kind, *_ = answer(raw, max(0.0, end - time.monotonic()))
        missing -= kind == b"subscribe"
    return raw
