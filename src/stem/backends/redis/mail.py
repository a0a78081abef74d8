"""Keep mailboxes and broadcast channels on Redis: one list per box, one stream per channel."""

from stem.backends.redis.namespace import RedisNamespace, microseconds
from stem.contracts.steering.mail import Mail, Subscription

STRETCH = 1000  # messages per script call


class RedisMail(Mail):
    def __init__(self, namespace: RedisNamespace) -> None:
        self._namespace = namespace

    def send(self, box: str, message: bytes, *, ttl_seconds: float) -> None:
        self._namespace.run("send", {"box": box, "ttl": microseconds(ttl_seconds)}, message)

    def receive(self, box: str, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        return self._namespace.wait([f"box:{box}"], lambda _: self._take(box, limit), timeout_seconds) or []

    def publish(self, channel: str, message: bytes, *, ttl_seconds: float) -> None:
        self._namespace.run("publish", {"channel": channel, "ttl": microseconds(ttl_seconds)}, message)

    def subscribe(self, channel: str) -> Subscription:
        seen = self._namespace.client.call("HGET", self._namespace.key("numbers"), "mail")
        return RedisSubscription(self._namespace, channel, int(seen or 0))

    def _take(self, box: str, limit: int) -> list[bytes]:
        """Stop at the first call that found something: if a later one failed, those messages would be lost."""
        more, messages = 1, list[bytes]()
        while more and not messages:
            more, *messages = self._namespace.run("receive", {"box": box, "limit": limit, "stretch": STRETCH})
        return messages


class RedisSubscription(Subscription):
    def __init__(self, namespace: RedisNamespace, channel: str, seen: int) -> None:
        self._namespace = namespace
        self._channel = channel
        self._seen = seen

    def receive(self, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        return self._namespace.wait([f"channel:{self._channel}"], lambda _: self._read(limit), timeout_seconds) or []

    def close(self) -> None:
        """Nothing is kept on the server for a subscription."""

    def _read(self, limit: int) -> list[bytes]:
        """Stop at the first call that found something: if a later one failed, those messages would be lost."""
        more, messages = 1, list[bytes]()
        while more and not messages:
            given = {"channel": self._channel, "seen": self._seen, "limit": limit, "stretch": STRETCH}
            seen, more, *messages = self._namespace.run("subscription_receive", given)
            self._seen = int(seen)
        return messages
