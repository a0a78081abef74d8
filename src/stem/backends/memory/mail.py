"""Mailboxes and broadcast in memory."""

from collections import deque

from stem.backends.memory.space import Door, Posted, Space
from stem.contracts.mail import Mail, Subscription


class MemoryMail(Mail):
    def __init__(self, space: Space, door: Door) -> None:
        self._space = space
        self._door = door

    def send(self, box: str, message: bytes, *, ttl_seconds: float) -> None:
        with self._space.changed:
            self._space.boxes.setdefault(box, deque()).append(self._posted(message, ttl_seconds))
            self._space.changed.notify_all()

    def receive(self, box: str, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        with self._space.changed:
            self._space.sleep_until(lambda: bool(self._live(box)), timeout_seconds, self._door)
            taken = self._live(box)[:limit]
            left = self._live(box)[limit:]
            self._space.boxes.pop(box, None)
            if left:
                self._space.boxes[box] = deque(left)
            return [posted.message for posted in taken]

    def publish(self, channel: str, message: bytes, *, ttl_seconds: float) -> None:
        with self._space.changed:
            self._space.channels.setdefault(channel, deque()).append(self._posted(message, ttl_seconds))
            self._space.changed.notify_all()

    def subscribe(self, channel: str) -> Subscription:
        with self._space.changed:
            return MemorySubscription(self._space, self._door, channel, self._space.last_number("mail"))

    def _posted(self, message: bytes, ttl_seconds: float) -> Posted:
        return Posted(self._space.number("mail"), message, self._space.clock() + ttl_seconds)

    def _live(self, box: str) -> list[Posted]:
        now = self._space.clock()
        return [posted for posted in self._space.boxes.get(box, ()) if posted.expires_at > now]


class MemorySubscription(Subscription):
    def __init__(self, space: Space, door: Door, channel: str, seen: int) -> None:
        self._space = space
        self._door = door
        self._channel = channel
        self._seen = seen

    def receive(self, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        with self._space.changed:
            self._space.sleep_until(lambda: bool(self._unseen()), timeout_seconds, self._door)
            fresh = self._unseen()[:limit]
            if fresh:
                self._seen = fresh[-1].number
            return [posted.message for posted in fresh]

    def close(self) -> None:
        """Nothing is kept for a subscription."""

    def _unseen(self) -> list[Posted]:
        now = self._space.clock()
        posted = self._space.channels.get(self._channel, ())
        return [each for each in posted if each.number > self._seen and each.expires_at > now]
