"""Keep mailboxes and broadcast channels in an SQLite file."""

from typing import Any

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.contracts.steering.mail import Mail, Subscription


class SqliteMail(Mail):
    def __init__(self, namespace: SqliteNamespace) -> None:
        self._namespace = namespace

    def send(self, box: str, message: bytes, *, ttl_seconds: float) -> None:
        self._post("box", box, message, ttl_seconds)

    def receive(self, box: str, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        namespace = self._namespace
        # Another receiver may be first: then this one has slept for nothing, and its caller comes again.
        has_some = lambda: bool(_live(namespace, "box", box, 0, 1))  # noqa: E731 - what is waited for
        if not namespace.sleep_until(has_some, timeout_seconds, {f"box:{box}"}, is_always_rung=True):
            return []
        with namespace.database.writing() as connection:
            parameters = (namespace.ns, "box", box, 0, namespace.now(), max(limit, 0))
            taken = connection.execute(SQL["mail_read"], parameters).fetchall()
            if taken:
                connection.execute(SQL["mail_take"], (namespace.ns, box, taken[-1][0]))
        return [message for _, message in taken]

    def publish(self, channel: str, message: bytes, *, ttl_seconds: float) -> None:
        self._post("channel", channel, message, ttl_seconds)

    def subscribe(self, channel: str) -> Subscription:
        with self._namespace.database.reading() as connection:
            return SqliteSubscription(self._namespace, channel, self._namespace.last_number(connection, "mail"))

    def _post(self, kind: str, topic: str, message: bytes, ttl_seconds: float) -> None:
        namespace = self._namespace
        with namespace.database.writing() as connection:
            number = namespace.take_numbers(connection, "mail")
            row = (namespace.ns, kind, topic, number, namespace.now() + ttl_seconds, message)
            connection.execute(SQL["mail_put"], row)
        namespace.ring({f"{kind}:{topic}"})


class SqliteSubscription(Subscription):
    def __init__(self, namespace: SqliteNamespace, channel: str, seen: int) -> None:
        self._namespace = namespace
        self._channel = channel
        self._seen = seen

    def receive(self, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        topics = {f"channel:{self._channel}"}
        if not self._namespace.sleep_until(lambda: bool(self._unseen(1)), timeout_seconds, topics, is_always_rung=True):
            return []
        fresh = self._unseen(limit)
        if fresh:
            self._seen = fresh[-1][0]
        return [message for _, message in fresh]

    def close(self) -> None:
        """Nothing is kept for a subscription."""

    def _unseen(self, limit: int) -> list[tuple[Any, ...]]:
        return _live(self._namespace, "channel", self._channel, self._seen, limit)


def _live(namespace: SqliteNamespace, kind: str, topic: str, after: int, limit: int) -> list[tuple[Any, ...]]:
    parameters = (namespace.ns, kind, topic, after, namespace.now(), max(limit, 0))
    with namespace.database.reading() as connection:
        return connection.execute(SQL["mail_read"], parameters).fetchall()
