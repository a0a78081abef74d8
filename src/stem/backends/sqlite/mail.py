"""Mailboxes and broadcast in an SQLite file."""

from typing import Any

from stem.backends.sqlite.space import Space
from stem.backends.sqlite.statements import SQL
from stem.contracts.mail import Mail, Subscription


class SqliteMail(Mail):
    def __init__(self, space: Space) -> None:
        self._space = space

    def send(self, box: str, message: bytes, *, ttl_seconds: float) -> None:
        self._post("box", box, message, ttl_seconds)

    def receive(self, box: str, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        space = self._space
        # Another receiver may be first: then this one has slept for nothing, and its caller comes again.
        has_some = lambda: bool(_live(space, "box", box, 0, 1))  # noqa: E731 - what is waited for
        if not space.sleep_until(has_some, timeout_seconds, {f"box:{box}"}, is_always_rung=True):
            return []
        with space.file.writing() as connection:
            parameters = (space.ns, "box", box, 0, space.now(), max(limit, 0))
            taken = connection.execute(SQL["mail_read"], parameters).fetchall()
            if taken:
                connection.execute(SQL["mail_take"], (space.ns, box, taken[-1][0]))
        return [message for _, message in taken]

    def publish(self, channel: str, message: bytes, *, ttl_seconds: float) -> None:
        self._post("channel", channel, message, ttl_seconds)

    def subscribe(self, channel: str) -> Subscription:
        with self._space.file.reading() as connection:
            return SqliteSubscription(self._space, channel, self._space.last_number(connection, "mail"))

    def _post(self, kind: str, topic: str, message: bytes, ttl_seconds: float) -> None:
        space = self._space
        with space.file.writing() as connection:
            number = space.take_numbers(connection, "mail")
            row = (space.ns, kind, topic, number, space.now() + ttl_seconds, message)
            connection.execute(SQL["mail_put"], row)
        space.ring({f"{kind}:{topic}"})


class SqliteSubscription(Subscription):
    def __init__(self, space: Space, channel: str, seen: int) -> None:
        self._space = space
        self._channel = channel
        self._seen = seen

    def receive(self, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        topics = {f"channel:{self._channel}"}
        if not self._space.sleep_until(lambda: bool(self._unseen(1)), timeout_seconds, topics, is_always_rung=True):
            return []
        fresh = self._unseen(limit)
        if fresh:
            self._seen = fresh[-1][0]
        return [message for _, message in fresh]

    def close(self) -> None:
        """Nothing is kept for a subscription."""

    def _unseen(self, limit: int) -> list[tuple[Any, ...]]:
        return _live(self._space, "channel", self._channel, self._seen, limit)


def _live(space: Space, kind: str, topic: str, after: int, limit: int) -> list[tuple[Any, ...]]:
    parameters = (space.ns, kind, topic, after, space.now(), max(limit, 0))
    with space.file.reading() as connection:
        return connection.execute(SQL["mail_read"], parameters).fetchall()
