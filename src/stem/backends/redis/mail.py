"""Mailboxes and broadcast on Redis: a list a box, a stream a channel."""

from stem.backends.redis.space import Space, microseconds
from stem.contracts.mail import Mail, Subscription


class RedisMail(Mail):
    def __init__(self, space: Space) -> None:
        self._space = space

    def send(self, box: str, message: bytes, *, ttl_seconds: float) -> None:
        self._space.run("send", {"box": box, "ttl": microseconds(ttl_seconds)}, message)

    def receive(self, box: str, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        def take(_: float) -> list[bytes]:
            taken: list[bytes] = self._space.run("receive", {"box": box, "limit": limit})
            return taken

        return self._space.wait([f"box:{box}"], take, timeout_seconds=timeout_seconds)

    def publish(self, channel: str, message: bytes, *, ttl_seconds: float) -> None:
        self._space.run("publish", {"channel": channel, "ttl": microseconds(ttl_seconds)}, message)

    def subscribe(self, channel: str) -> Subscription:
        seen = self._space.link.call("HGET", self._space.key("numbers"), "mail")
        return RedisSubscription(self._space, channel, int(seen or 0))


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
        given = {"channel": self._channel, "seen": self._seen, "limit": limit}
        reply: list[bytes] = self._space.run("hear", given)
        self._seen = int(reply[0])
        return reply[1:]
