"""Keep mailboxes and broadcast channels in memory."""

from collections import deque

from stem.backends.memory.state import MemoryState, Posted, StoreHandle
from stem.contracts.steering.mail import Mail, Subscription


class MemoryMail(Mail):
    def __init__(self, state: MemoryState, handle: StoreHandle) -> None:
        self._state = state
        self._handle = handle

    def send(self, box: str, message: bytes, *, ttl_seconds: float) -> None:
        with self._state.changed:
            self._state.boxes.setdefault(box, deque()).append(self._posted(message, ttl_seconds))
            self._state.changed.notify_all()

    def receive(self, box: str, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        with self._state.changed:
            self._state.sleep_until(lambda: bool(self._live(box)), timeout_seconds, self._handle)
            taken = self._live(box)[:limit]
            left = self._live(box)[limit:]
            self._state.boxes.pop(box, None)
            if left:
                self._state.boxes[box] = deque(left)
            return [posted.message for posted in taken]

    def publish(self, channel: str, message: bytes, *, ttl_seconds: float) -> None:
        with self._state.changed:
            self._state.channels.setdefault(channel, deque()).append(self._posted(message, ttl_seconds))
            self._state.changed.notify_all()

    def subscribe(self, channel: str) -> Subscription:
        with self._state.changed:
            return MemorySubscription(self._state, self._handle, channel, self._state.last_number("mail"))

    def _posted(self, message: bytes, ttl_seconds: float) -> Posted:
        return Posted(self._state.number("mail"), message, self._state.clock() + ttl_seconds)

    def _live(self, box: str) -> list[Posted]:
        now = self._state.clock()
        return [posted for posted in self._state.boxes.get(box, ()) if posted.expires_at > now]


class MemorySubscription(Subscription):
    def __init__(self, state: MemoryState, handle: StoreHandle, channel: str, seen: int) -> None:
        self._state = state
        self._handle = handle
        self._channel = channel
        self._seen = seen

    def receive(self, *, timeout_seconds: float, limit: int = 100) -> list[bytes]:
        with self._state.changed:
            self._state.sleep_until(lambda: bool(self._unseen()), timeout_seconds, self._handle)
            fresh = self._unseen()[:limit]
            if fresh:
                self._seen = fresh[-1].number
            return [posted.message for posted in fresh]

    def close(self) -> None:
        """Nothing is kept for a subscription."""

    def _unseen(self) -> list[Posted]:
        now = self._state.clock()
        posted = self._state.channels.get(self._channel, ())
        return [each for each in posted if each.number > self._seen and each.expires_at > now]
