"""The supervisor's side of the fork server: ask for isolates, hear of their ends, bury them."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import msgspec

from stem.core.config import CONTROL_KEYS
from stem.core.errors import ConfigError, StemError
from stem.worker import wire
from stem.worker.cell import Cell
from stem.worker.manifest import Manifest, decode
from stem.worker.output import Lines
from stem.worker.reaper import END
from stem.worker.requests import Born, Bury, Exited, Load, Loaded, Refused, Reply, Request, Start

END_SECONDS = 10.0  # for all that is below to end, killed as it is

_tokens = count(1)
_replies: "msgspec.json.Decoder[Reply]" = msgspec.json.Decoder(Reply)


@dataclass(eq=False, slots=True)
class Child:
    """The supervisor's ends of what it shares with one isolate. `back` is where the isolate reads its inbox."""

    token: int
    cell: Cell
    inbox: socket.socket
    back: socket.socket
    line: socket.socket
    output: int
    is_lane: bool
    pid: int = 0  # until it is born
    frames: wire.Frames = field(default_factory=wire.Frames)
    lines: Lines = field(default_factory=Lines)

    def send(self, packet: bytes) -> bool:
        """False: its inbox is full."""
        try:
            self.inbox.send(packet, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return False
        return True

    def take_back(self) -> list[int]:
        """The numbers of the runs that it had not begun, and now never will."""
        numbers = []
        with suppress(BlockingIOError, OSError):
            while packet := self.back.recv(wire.PACKET_BYTES, socket.MSG_DONTWAIT):
                numbers.append(wire.read_run(packet).number)
        return numbers

    def interrupt(self) -> None:
        """Have it look into its cell."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, wire.INTERRUPT)

    def signal(self, number: int) -> None:
        """To its whole process group."""
        if self.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def kill(self) -> None:
        """With its whole process group. Its id is its own until it is buried."""
        if self.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)  # it may not have made its group yet
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def dismiss(self) -> None:
        """It ends by itself once it has done what it holds."""
        self.inbox.close()

    def close(self) -> None:
        for end in (self.inbox, self.back, self.line):
            end.close()
        os.close(self.output)
        self.cell.close()


class Nursery:
    """Not for several threads at once."""

    def __init__(self, path: str, worker: str) -> None:
        self._path = path
        self.worker = worker  # the name that isolates get
        self._frames = wire.Frames()
        self.control, theirs = socket.socketpair()
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
            # -P: files in the working directory must not replace modules that this package imports.
            [sys.executable, "-P", "-m", "stem.worker.reaper", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={name: value for name, value in os.environ.items() if name != CONTROL_KEYS},  # tasks need none of them
            stdin=subprocess.DEVNULL,
            process_group=0,  # a terminal's Ctrl-C is for the supervisor
        )
        theirs.close()
        self._send(Load(path))

    @property
    def pid(self) -> int:
        """Of the reaper, which is our child; the fork server is its child."""
        return self._process.pid

    def manifest(self, *, timeout_seconds: float = 300.0) -> Manifest:
        """Wait for the import of the app. Raises ConfigError."""
        self.control.settimeout(timeout_seconds)
        try:
            reply = _replies.decode(wire.read_frame(self.control))
        except (EOFError, TimeoutError, ConnectionError) as error:
            raise ConfigError(
                f"Importing {self._path} ended its process or took longer than {timeout_seconds:g} s; "
                "import it by hand to see why."
            ) from error
        finally:
            self.control.settimeout(None)
        match reply:
            case Loaded(manifest):
                return decode(manifest)
            case Refused(sentence, exit_code):
                raise (ConfigError if exit_code == ConfigError.exit_code else StemError)(sentence)
            case Born() | Exited():
                raise ConfigError(f"The fork server for {self._path} speaks out of turn; start the worker again.")

    def start(self, slots: int, *, is_lane: bool = False) -> Child:
        """It is not born yet; a reply will say so."""
        child, descriptors = make_child(slots, is_lane=is_lane)
        try:
            self._send(Start(child.token, slots, is_lane, self.worker), descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return child

    def bury(self, pid: int) -> None:
        self._send(Bury(pid))

    def replies(self) -> list[Reply]:
        """What the server has said meanwhile. Raises EOFError when it is gone."""
        data = self.control.recv(1 << 16)
        if not data:
            raise EOFError("the fork server is gone")
        return [_replies.decode(part) for part in self._frames.feed(data)]

    def close(self) -> None:
        """Ends the server, every isolate that is left, and whatever tasks have started."""
        self.control.close()
        self._process.send_signal(END)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _send(self, request: Request, descriptors: list[int] | None = None) -> None:
        data = wire.framed(msgspec.json.encode(request))
        if descriptors:
            socket.send_fds(self.control, [data], descriptors)
        else:
            self.control.sendall(data)


def make_child(slots: int, *, is_lane: bool) -> tuple[Child, list[int]]:
    """Our ends, and the descriptors of the other ends: inbox, line, output, cell."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line, their_line = socket.socketpair()
    line.setblocking(False)
    output, their_output = os.pipe()
    os.set_blocking(output, False)
    cell, their_cell = Cell.create(slots)
    child = Child(next(_tokens), cell, ours, theirs.dup(), line, output, is_lane)
    return child, [theirs.detach(), their_line.detach(), their_output, their_cell]
