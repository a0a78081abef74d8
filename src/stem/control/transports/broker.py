"""The default transport: one mailbox per worker and one per request, in the store of the tasks."""

from collections.abc import Collection

from stem.contracts.steering.control import ControlTransport
from stem.contracts.steering.mail import Mail
from stem.control.transports.control_mail import REPLY_SECONDS, ControlMail
from stem.core.control import Command, Reply
from stem.core.errors import UsageError


class BrokerTransport(ControlTransport):
    """A worker gives its id and hears what is sent to its own box; what is sent to all, `BroadcastTransport` hears."""

    name = "broker"

    def __init__(
        self, mail: Mail, namespace: str, worker_id: str | None = None, *, reply_seconds: float = REPLY_SECONDS
    ) -> None:
        self._mail = ControlMail(mail, namespace, reply_seconds)
        self._worker_id = worker_id

    def send_command(self, command: Command) -> str:
        self._mail.to_each(command)
        return self.name

    def reach(self, command: Command, workers: Collection[str]) -> frozenset[str]:
        return self._mail.to_these(command, workers)

    def receive_commands(self, timeout_seconds: float) -> list[bytes]:
        if self._worker_id is None:
            raise UsageError("This transport was opened for asking; give it a worker_id to hear commands.")
        return self._mail.commands(self._worker_id, timeout_seconds)

    def send_reply(self, reply: Reply) -> None:
        self._mail.reply(reply)

    def receive_replies(self, request_id: str, timeout_seconds: float) -> list[Reply]:
        return self._mail.replies(request_id, timeout_seconds)

    def forget(self, request_id: str) -> None:
        """What still comes expires."""

    def close(self) -> None:
        """Nothing of its own is open."""
