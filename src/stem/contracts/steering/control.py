"""The transports of commands and replies, and what a command may do to a worker."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Protocol

from stem.core.control import Command, Reply
from stem.core.pause import SignedScope
from stem.core.revoke import RevokeRecord

ShutdownMode = Literal["warm", "soft", "hard"]


class CommandSender(ABC):
    """The caller's end of a transport: sends commands and receives replies. Methods raise StemError if the transport fails."""

    name: str

    @abstractmethod
    def send_command(self, command: Command) -> str:
        """On its way to every target when it returns; the name of the transport that carries it. A worker that is not
        there never gets it, however soon it comes back."""

    def reach(self, command: Command, workers: Collection[str]) -> frozenset[str]:
        """Send it to these of its targets; those it is on its way to. The others may be asked by another transport: a
        worker that gets a command twice obeys it once."""
        self.send_command(command)
        return frozenset(workers)

    @abstractmethod
    def receive_replies(self, request_id: str, timeout_seconds: float) -> list[Reply]:
        """Those not yet received; sleeps until there is one or the time is up. What is no reply is left out."""

    @abstractmethod
    def forget(self, request_id: str) -> None:
        """Nobody waits for replies to this any more. Twice is a no-op."""

    @abstractmethod
    def close(self) -> None:
        """Release what this transport opened, never the store it was given. Twice is a no-op."""


class CommandReceiver(ABC):
    """The worker's end. One thread receives; replies may be sent by any."""

    name: str
    url: str | None = None  # where callers find it, if it has an address of its own

    @abstractmethod
    def receive_commands(self, timeout_seconds: float) -> list[bytes]:
        """Raw and unchecked, each once, oldest first; sleeps until there is one or the time is up."""

    @abstractmethod
    def send_reply(self, reply: Reply) -> None:
        """Send to the caller. A reply that is never fetched expires."""

    @abstractmethod
    def close(self) -> None:
        """Release what this transport opened, never the store it was given. Twice is a no-op."""


class ControlTransport(CommandSender, CommandReceiver):
    """A transport that implements both ends."""


class Steerable(Protocol):
    """What a worker lets commands do. Called from several threads; no call waits for a task. `revoke` waits for the pool, up to
    2 s; calls that read the store, as `stats` does, wait for the store; the others return within 200 ms, however busy the
    isolates are. Answers are plain JSON values. Raises UsageError for what cannot be meant."""

    @property
    def worker_id(self) -> str: ...

    @property
    def state(self) -> str:
        """ok, wedged, draining or paused."""

    def pong(self) -> dict[str, Any]:
        """A few facts, among them `state`: ok, wedged, draining or paused."""

    def stats(self, include_tasks: bool, /) -> dict[str, Any]: ...

    def active(self, filters: dict[str, Any], /) -> list[dict[str, Any]]:
        """Tasks in flight, of this `queue`, `task` (its name) and `id`, where given."""

    def revoked(self) -> list[str]:
        """The ids that this worker knows to be revoked; the newest thousand, where there are more."""

    def revoke(self, records: list[RevokeRecord], terminate: bool, signal: str, /) -> dict[str, str]:
        """What became of each task id. Version 0: the sender knew only the id. Returns before a running task has ended."""

    def shutdown(self, mode: ShutdownMode, /) -> None:
        """Begins it, and returns while the reply can still be sent."""

    def autoscale(self, changes: dict[str, Any], /) -> dict[str, Any]:
        """The settings that hold after the changes; no changes: those that hold now."""

    def pause(self, queues: Sequence[str], /) -> list[str]:
        """All queues that are paused after it. None given: all that the worker serves."""

    def resume(self, queues: Sequence[str], /) -> list[str]:
        """All queues that are still paused after it. None given: all that are paused."""

    def note_pauses(self, signed: Mapping[str, SignedScope], /) -> None:
        """Signed pauses and resumes, by queue, that are newer than what the worker has read."""

    def queue_status(self) -> dict[str, Any]: ...

    def rate_limit(self, task: str, rate: str | None, /) -> dict[str, Any]:
        """The limit that holds after it; None takes the limit away."""

    def recycle(self, isolates: list[int] | None, /) -> dict[str, Any]:
        """Fresh isolates after the tasks they run now, by process id; None: all of them."""
