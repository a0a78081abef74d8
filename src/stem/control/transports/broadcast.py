"""Sends a command to all workers at once, as a publication; those it is not for ignore it."""

from stem.contracts.steering.control import ControlTransport
from stem.contracts.steering.mail import Mail, Subscription
from stem.control.transports.control_mail import REPLY_SECONDS, ControlMail
from stem.core.control import Command, Reply
from stem.core.errors import UsageError


class BroadcastTransport(ControlTransport):
    """A worker gives its id and hears what is published from then on."""

    name = "broadcast"

    def __init__(
        self, mail: Mail, namespace: str, worker_id: str | None = None, *, reply_seconds: float = REPLY_SECONDS
    ) -> None:
        self._mail = ControlMail(mail, namespace, reply_seconds)
        self._subscription: Subscription | None = None if worker_id is None else self._mail.subscribe()

    def send_command(self, command: Command) -> str:
        self._mail.to_all(command)
        return self.name

    def receive_commands(self, timeout_seconds: float) -> list[bytes]:
        if self._subscription is None:
            raise UsageError("This transport was opened for asking; give it a worker_id to hear commands.")
        return self._subscription.receive(timeout_seconds=timeout_seconds)

    def send_reply(self, reply: Reply) -> None:
        self._mail.reply(reply)

    def receive_replies(self, request_id: str, timeout_seconds: float) -> list[Reply]:
        return self._mail.replies(request_id, timeout_seconds)

    def forget(self, request_id: str) -> None:
        """What still comes expires."""

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
