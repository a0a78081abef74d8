"""Mailboxes and broadcast on Redis: a list a box, a stream a channel."""

from stem.backends.redis.space import Space, microseconds
from stem.contracts.mail import Mail, Subscription

STRETCH = 1000  # messages that a script call looks through


class RedisMail(Mail):
    def __init__(self, space: Space) -> None:
        self._space = space

    def send(self, box: str, message: bytes, *, ttl_seconds: float) -> None:
        self._space.run("send", {"box": box, "ttl": microseconds(ttl_seconds)}, message)

    def receive(self, box: str, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        return self._space.wait([f"box:{box}"], lambda _: self._take(box, limit), timeout_seconds=timeout_seconds)

    def publish(self, channel: str, message: bytes, *, ttl_seconds: float) -> None:
        self._space.run("publish", {"channel": channel, "ttl": microseconds(ttl_seconds)}, message)

    def subscribe(self, channel: str) -> Subscription:
        seen = self._space.link.call("HGET", self._space.key("numbers"), "mail")
        return RedisSubscription(self._space, channel, int(seen or 0))

    def _take(self, box: str, limit: int) -> list[bytes]:
        """Ends with the first step that found something: were a later one to fail, it would be lost."""
        more, messages = 1, list[bytes]()
        while more and not messages:
            more, *messages = self._space.run("receive", {"box": box, "limit": limit, "stretch": STRETCH})
        return messages


class RedisSubscription(Subscription):
    def __init__(self, space: Space, channel: str, seen: int) -> None:
        self._space = space
        self._channel = channel
        self._seen = seen

    def receive(self, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        return self._space.wait(
            [f"channel:{self._channel}"], lambda _: self._hear(limit), timeout_seconds=timeout_seconds
        )

    def close(self) -> None:
        """Nothing is kept on the server for a subscription."""

    def _hear(self, limit: int) -> list[bytes]:
        """Ends with the first step that found something: were a later one to fail, it would be lost."""
        more, messages = 1, list[bytes]()
        while more and not messages:
            given = {"channel": self._channel, "seen": self._seen, "limit": limit, "stretch": STRETCH}
            seen, more, *messages = self._space.run("hear", given)
            self._seen = int(seen)
        return messages
