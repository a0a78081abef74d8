"""Polls the mailboxes and the channel, for stores that cannot wake a waiting reader."""

import time
from collections.abc import Callable, Collection
from threading import Event
from typing import TypeVar

from stem.contracts.steering.control import ControlTransport
from stem.contracts.steering.mail import Mail, Subscription
from stem.control.transports.control_mail import REPLY_SECONDS, ControlMail
from stem.core.control import Command, Reply
from stem.core.errors import UsageError

T = TypeVar("T")

POLL_SECONDS = 5.0


class PollingTransport(ControlTransport):
    """A worker gives its id. Ask with a time-out of more than an interval: a command expires unseen otherwise."""

    name = "polling"

    def __init__(
        self,
        mail: Mail,
        namespace: str,
        worker_id: str | None = None,
        *,
        poll_seconds: float = POLL_SECONDS,
        reply_seconds: float = REPLY_SECONDS,
    ) -> None:
        self._mail = ControlMail(mail, namespace, reply_seconds)
        self._worker_id = worker_id
        self._subscription: Subscription | None = None if worker_id is None else self._mail.subscribe()
        self._poll_seconds = poll_seconds
        self._looked_at = -poll_seconds
        self._closed = Event()

    def send_command(self, command: Command) -> str:
        self._mail.to_each(command)
        return self.name

    def reach(self, command: Command, workers: Collection[str]) -> frozenset[str]:
        return self._mail.to_these(command, workers)

    def receive_commands(self, timeout_seconds: float) -> list[bytes]:
        if self._worker_id is None or self._subscription is None:
            raise UsageError("This transport was opened for asking; give it a worker_id to hear commands.")
        worker_id, subscription = self._worker_id, self._subscription
        return self._poll(
            lambda: self._mail.commands(worker_id, 0) + subscription.receive(timeout_seconds=0), timeout_seconds
        )

    def send_reply(self, reply: Reply) -> None:
        self._mail.reply(reply)

    def receive_replies(self, request_id: str, timeout_seconds: float) -> list[Reply]:
        found = self._poll(lambda: self._mail.replies(request_id, 0), timeout_seconds)
        # The caller's time may be up before the next look is due; a reply that is there counts.
        return found or self._mail.replies(request_id, 0)

    def forget(self, request_id: str) -> None:
        """What still comes expires."""

    def close(self) -> None:
        self._closed.set()
        if self._subscription is not None:
            self._subscription.close()

    def _poll(self, look: Callable[[], list[T]], timeout_seconds: float) -> list[T]:
        """Looks once an interval, however short the calls are."""
        end = time.monotonic() + timeout_seconds
        while not self._closed.is_set():
            now = time.monotonic()
            next_at = self._looked_at + self._poll_seconds
            if now >= next_at:
                self._looked_at = now
                if found := look():
                    return found
            elif next_at >= end:
                self._closed.wait(max(0.0, end - now))
                return []
            else:
                self._closed.wait(next_at - now)
        return []
