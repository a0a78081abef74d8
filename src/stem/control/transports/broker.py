"""The default transport: a box a worker and a box a request, in the store that the tasks live in."""

from collections.abc import Collection

from stem.contracts.control import ControlTransport
from stem.contracts.mail import Mail
from stem.control.transports.post import REPLY_SECONDS, Post
from stem.core.control import Command, Reply
from stem.core.errors import UsageError


class BrokerTransport(ControlTransport):
    """A worker gives its id and hears what is sent to its own box; what is sent to all, `BroadcastTransport` hears."""

    name = "broker"

    def __init__(
        self, mail: Mail, namespace: str, worker_id: str | None = None, *, reply_seconds: float = REPLY_SECONDS
    ) -> None:
        self._post = Post(mail, namespace, reply_seconds)
        self._worker_id = worker_id

    def send_command(self, command: Command) -> str:
        self._post.to_each(command)
        return self.name

    def reach(self, command: Command, workers: Collection[str]) -> frozenset[str]:
        return self._post.to_these(command, workers)

    def receive_commands(self, timeout_seconds: float) -> list[bytes]:
        if self._worker_id is None:
            raise UsageError("This transport was opened for asking; give it a worker_id to hear commands.")
        return self._post.commands(self._worker_id, timeout_seconds)

    def send_reply(self, reply: Reply) -> None:
        self._post.reply(reply)

    def receive_replies(self, request_id: str, timeout_seconds: float) -> list[Reply]:
        return self._post.replies(request_id, timeout_seconds)

    def forget(self, request_id: str) -> None:
        """What still comes expires."""

    def close(self) -> None:
        """Nothing of its own is open."""
