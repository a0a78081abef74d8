"""Mailboxes and broadcast in Postgres."""

from stem.backends.postgres.bell import News, news
from stem.backends.postgres.space import Corner
from stem.contracts.mail import Mail, Subscription

# Whoever sends rings; this is for connections that cannot hear it.
POLL_SECONDS = 5.0


class PostgresMail(Mail):
    def __init__(self, space: Corner) -> None:
        self._space = space

    def send(self, box: str, message: bytes, *, ttl_seconds: float) -> None:
        self._space.call("publish", False, box, message, ttl_seconds)
        self._space.tell(news(boxes=["box/" + box], logged=False))

    def receive(self, box: str, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        def look(left: float) -> list[bytes] | None:
            rows = self._space.ask("mail_take", name=box, limit=max(0, limit), timeout_seconds=left)
            return [bytes(message) for (message,) in rows] or None

        def concerns(told: News) -> bool:
            return "box/" + box in told.boxes

        return (
            self._space.listeners.mail.until(concerns, look, timeout_seconds, slowest_poll_seconds=POLL_SECONDS) or []
        )

    def publish(self, channel: str, message: bytes, *, ttl_seconds: float) -> None:
        self._space.call("publish", True, channel, message, ttl_seconds)
        self._space.tell(news(boxes=["channel/" + channel], logged=False))

    def subscribe(self, channel: str) -> Subscription:
        return PostgresSubscription(self._space, channel, int(self._space.ask("mail_last", name=channel)[0][0]))


class PostgresSubscription(Subscription):
    """A cursor of its own; nothing is kept for it on the server."""

    def __init__(self, space: Corner, channel: str, seen: int) -> None:
        self._space = space
        self._channel = channel
        self._seen = seen

    def receive(self, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        found = self._space.listeners.mail.until(
            self._concerns, lambda left: self._take(limit, left), timeout_seconds, slowest_poll_seconds=POLL_SECONDS
        )
        return found or []

    def close(self) -> None:
        """Nothing is kept for a subscription."""

    def _take(self, limit: int, left: float) -> list[bytes] | None:
        rows = self._space.ask(
            "mail_unseen", name=self._channel, seen=self._seen, limit=max(0, limit), timeout_seconds=left
        )
        if rows:
            self._seen = rows[-1][0]
        return [bytes(message) for _, message in rows] or None

    def _concerns(self, told: News) -> bool:
        return "channel/" + self._channel in told.boxes
