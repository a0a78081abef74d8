"""The mailboxes and the channel of the control plane in a store. Every message expires."""

import logging
from collections.abc import Iterable

import msgspec

from stem.contracts.steering.mail import Mail, Subscription
from stem.core.control import ALL, Command, MessageUnreadable, Reply, decode_reply, encode_command, encode_reply

log = logging.getLogger("stem.control")

REPLY_SECONDS = 60.0


class ControlMail(msgspec.Struct, frozen=True):
    """`reply_seconds` is how long a reply waits to be fetched: an caller fetches at once or is gone."""

    mail: Mail
    namespace: str
    reply_seconds: float = REPLY_SECONDS

    @property
    def channel(self) -> str:
        return f"{self.namespace}.control.broadcast"

    def worker_box(self, worker_id: str) -> str:
        return f"{self.namespace}.control.worker.{worker_id}"

    def reply_box(self, request_id: str) -> str:
        return f"{self.namespace}.control.reply.{request_id}"

    def to_each(self, command: Command) -> None:
        """Send one message per target; to all workers, one broadcast."""
        if ALL in command.targets:
            self.to_all(command)
        else:
            self.to_these(command, command.targets)

    def to_these(self, command: Command, workers: Iterable[str]) -> frozenset[str]:
        message = encode_command(command)
        named = dict.fromkeys(workers)
        for worker_id in named:
            self.mail.send(self.worker_box(worker_id), message, ttl_seconds=command.timeout_ms / 1000)
        return frozenset(named)

    def to_all(self, command: Command) -> None:
        self.mail.publish(self.channel, encode_command(command), ttl_seconds=command.timeout_ms / 1000)

    def subscribe(self) -> Subscription:
        return self.mail.subscribe(self.channel)

    def commands(self, worker_id: str, timeout_seconds: float) -> list[bytes]:
        return self.mail.receive(self.worker_box(worker_id), timeout_seconds=timeout_seconds)

    def reply(self, reply: Reply) -> None:
        self.mail.send(self.reply_box(reply.request_id), encode_reply(reply), ttl_seconds=self.reply_seconds)

    def replies(self, request_id: str, timeout_seconds: float) -> list[Reply]:
        return list(
            read_replies(request_id, self.mail.receive(self.reply_box(request_id), timeout_seconds=timeout_seconds))
        )


def read_replies(request_id: str, messages: Iterable[bytes]) -> Iterable[Reply]:
    """Those that are replies to this request; others are noted and left out."""
    for message in messages:
        try:
            reply = decode_reply(message)
        except MessageUnreadable as error:
            log.warning("control.reply_unreadable request=%s: %s", request_id, error)
            continue
        if reply.request_id == request_id:
            yield reply
