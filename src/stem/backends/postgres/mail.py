"""Keep mailboxes and broadcast channels in Postgres."""

from stem.backends.postgres.namespace import PostgresNamespace
from stem.backends.postgres.notify.notifier import Notification, notification
from stem.contracts.steering.mail import Mail, Subscription

# Whoever sends rings; this is for connections that cannot hear it.
POLL_SECONDS = 5.0


class PostgresMail(Mail):
    def __init__(self, namespace: PostgresNamespace) -> None:
        self._namespace = namespace

    def send(self, box: str, message: bytes, *, ttl_seconds: float) -> None:
        self._namespace.call("publish", False, box, message, ttl_seconds)
        self._namespace.notify(notification(boxes=["box/" + box], logged=False))

    def receive(self, box: str, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        def look(left: float) -> list[bytes]:
            rows = self._namespace.query("mail_take", name=box, limit=max(0, limit), timeout_seconds=left)
            return [bytes(message) for (message,) in rows]

        def concerns(change: Notification) -> bool:
            return "box/" + box in change.boxes

        listener = self._namespace.listeners.mail
        return listener.wait_until(concerns, look, timeout_seconds, slowest_poll_seconds=POLL_SECONDS) or []

    def publish(self, channel: str, message: bytes, *, ttl_seconds: float) -> None:
        self._namespace.call("publish", True, channel, message, ttl_seconds)
        self._namespace.notify(notification(boxes=["channel/" + channel], logged=False))

    def subscribe(self, channel: str) -> Subscription:
        return PostgresSubscription(
            self._namespace, channel, int(self._namespace.query("mail_last", name=channel)[0][0])
        )


class PostgresSubscription(Subscription):
    """A cursor of its own; nothing is kept for it on the server."""

    def __init__(self, namespace: PostgresNamespace, channel: str, seen: int) -> None:
        self._namespace = namespace
        self._channel = channel
        self._seen = seen

    def receive(self, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        found = self._namespace.listeners.mail.wait_until(
            self._concerns, lambda left: self._take(limit, left), timeout_seconds, slowest_poll_seconds=POLL_SECONDS
        )
        return found or []

    def close(self) -> None:
        """Nothing is kept for a subscription."""

    def _take(self, limit: int, left: float) -> list[bytes]:
        rows = self._namespace.query(
            "mail_unseen", name=self._channel, seen=self._seen, limit=max(0, limit), timeout_seconds=left
        )
        if rows:
            self._seen = rows[-1][0]
        return [bytes(message) for _, message in rows]

    def _concerns(self, change: Notification) -> bool:
        return "channel/" + self._channel in change.boxes
