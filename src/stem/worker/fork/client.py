"""The supervisor's side of the fork server: start isolates, learn of their exits, reap them."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import msgspec

from stem.core.errors import ConfigError, StemError
from stem.core.settings.app import CONTROL_KEYS
from stem.runtime.framing import FrameReader, frame, read_frame
from stem.worker.fork.manifest import Manifest, decode
from stem.worker.fork.protocol import (
    AppLoaded,
    AppRefused,
    EndApp,
    IsolateExited,
    IsolateStarted,
    LoadApp,
    Ping,
    Pong,
    ReapIsolate,
    Reply,
    Request,
    StartIsolate,
)
from stem.worker.fork.reaper import END
from stem.worker.isolate import wire
from stem.worker.isolate.output import OutputReader
from stem.worker.isolate.status_block import StatusBlock

END_SECONDS = 10.0  # for the killed process tree to end

_tokens = count(1)
_replies: "msgspec.json.Decoder[Reply]" = msgspec.json.Decoder(Reply)


@dataclass(eq=False, slots=True)
class IsolateHandle:
    """The supervisor's ends of what it shares with one isolate.

    `inbox_far_end` is the isolate's end of the inbox: reading from it takes unread tasks back.
    """

    token: int
    status: StatusBlock
    inbox: socket.socket
    inbox_far_end: socket.socket
    stream: socket.socket
    output: int
    is_inline: bool
    pid: int = 0  # until the fork server reports it
    frames: FrameReader = field(default_factory=FrameReader)
    lines: OutputReader = field(default_factory=OutputReader)

    def send(self, packet: bytes) -> bool:
        """Send a task. False if the inbox is full."""
        try:
            self.inbox.send(packet, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return False
        return True

    def take_back(self) -> list[int]:
        """Remove unread tasks from the inbox; returns their numbers."""
        numbers = []
        with suppress(BlockingIOError, OSError):
            while packet := self.inbox_far_end.recv(wire.PACKET_BYTES, socket.MSG_DONTWAIT):
                numbers.append(wire.read_run(packet).number)
        return numbers

    def interrupt(self) -> None:
        """Make it read its status block."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, wire.INTERRUPT)

    def signal(self, number: int) -> None:
        """To its whole process group."""
        if self.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def kill(self) -> None:
        """Kill its whole process group. Its process id stays its own until it is reaped."""
        if self.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)  # it may not have created its group yet
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def dismiss(self) -> None:
        """Let it exit once it has finished the tasks it holds."""
        self.inbox.close()

    def close(self) -> None:
        for end in (self.inbox, self.inbox_far_end, self.stream):
            end.close()
        os.close(self.output)
        self.status.close()


class ForkServerClient:
    """Connection to one fork server process. Not thread-safe."""

    def __init__(self, path: str, worker: str) -> None:
        self._path = path
        self.worker = worker  # the name that isolates get
        self.pinged_at: float | None = None  # None: every ping was answered
        self._has_ending = False
        self._frames = FrameReader()
        self.control, theirs = socket.socketpair()
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
            # -P: files in the working directory must not replace modules that this package imports.
            [sys.executable, "-P", "-m", "stem.worker.fork.reaper", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={name: value for name, value in os.environ.items() if name != CONTROL_KEYS},  # tasks must not have them
            stdin=subprocess.DEVNULL,
            process_group=0,  # a terminal's Ctrl-C is for the supervisor
        )
        theirs.close()
        self._send(LoadApp(path))

    @property
    def pid(self) -> int:
        """Of the reaper, which is our child; the fork server is its child."""
        return self._process.pid

    def manifest(self, *, timeout_seconds: float = 300.0) -> Manifest:
        """Wait until the app is imported. Raises ConfigError."""
        self.control.settimeout(timeout_seconds)
        try:
            reply = _replies.decode(read_frame(self.control))
        except (EOFError, TimeoutError, ConnectionError) as error:
            raise ConfigError(
                f"Importing {self._path} ended its process or took longer than {timeout_seconds:g} s; "
                "import it by hand to see why."
            ) from error
        finally:
            self.control.settimeout(None)
        match reply:
            case AppLoaded(manifest, has_ending):
                self._has_ending = has_ending
                return decode(manifest)
            case AppRefused(sentence, exit_code):
                raise (ConfigError if exit_code == ConfigError.exit_code else StemError)(sentence)
            case IsolateStarted() | IsolateExited() | Pong():
                raise ConfigError(f"The fork server for {self._path} replied out of order; start the worker again.")

    def start(self, slots: int, *, is_inline: bool = False) -> IsolateHandle:
        """Request an isolate; a reply says when it has started."""
        handle, descriptors = make_handle(slots, is_inline=is_inline)
        try:
            self._send(StartIsolate(handle.token, slots, is_inline, self.worker), descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return handle

    def ping(self) -> None:
        """Send a ping, unless one is unanswered; whoever reads the reply clears `pinged_at`."""
        if self.pinged_at is None:
            self.pinged_at = time.monotonic()
            self._send(Ping())

    def reap(self, pid: int) -> None:
        self._send(ReapIsolate(pid))

    def replies(self) -> list[Reply]:
        """Read the replies that have arrived. Raises EOFError when the server has exited."""
        data = self.control.recv(1 << 16)
        if not data:
            raise EOFError("the fork server has exited")
        return [_replies.decode(part) for part in self._frames.feed(data)]

    def close(self) -> None:
        """End the server, its isolates, and whatever tasks have started."""
        if self._has_ending:
            self._let_app_end()
        self.control.close()
        self._process.send_signal(END)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _let_app_end(self) -> None:
        """Wait until the app has been told that its worker stops, or for a while."""
        with suppress(OSError):  # it may have exited already
            self.control.settimeout(END_SECONDS)
            self._send(EndApp())
            while self.control.recv(1 << 16):
                pass

    def _send(self, request: Request, descriptors: list[int] | None = None) -> None:
        data = frame(msgspec.json.encode(request))
        if descriptors:
            socket.send_fds(self.control, [data], descriptors)
        else:
            self.control.sendall(data)


def make_handle(slots: int, *, is_inline: bool) -> tuple[IsolateHandle, list[int]]:
    """Create the channels; returns our ends and the descriptors of the other ends: inbox, stream, output, status block."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stream, their_stream = socket.socketpair()
    stream.setblocking(False)
    output, their_output = os.pipe()
    os.set_blocking(output, False)
    status, their_status = StatusBlock.create(slots)
    handle = IsolateHandle(next(_tokens), status, ours, theirs.dup(), stream, output, is_inline)
    return handle, [theirs.detach(), their_stream.detach(), their_output, their_status]
