"""The fork server: imports the app once, then forks isolates. Single-threaded; never connects to a store.

A child of the reaper (reaper.py). Requests arrive over a stream; one to start an isolate carries its four descriptors.
A dead isolate stays unburied until the supervisor says so, so that its process id means nothing else. Processes that it leaves
behind become children of the fork server, which kills them.
"""

import gc
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import NoReturn

import msgspec

from stem.client.app import Stem
from stem.client.loading import load
from stem.core.errors import StemError
from stem.runtime import process
from stem.runtime.framing import HEAD_BYTES, frame, frame_length, read_exactly
from stem.runtime.log import LogStream
from stem.runtime.orphans import adopt_orphans, end_children, kill_children, this_tick
from stem.runtime.process import die_with
from stem.telemetry import otlp
from stem.worker.fork.manifest import encode, manifest
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
from stem.worker.isolate.main import serve_isolate

DESCRIPTORS = 4
A_LIBRARYS = "a thread of a library"
READY_FOR_FORKS = {"jemalloc_bg_thd"}  # pyarrow's memory: its library takes all its locks for a fork
STDERR = 2
REAPER_CHECK_SECONDS = 2.0


class Server:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._parent = os.getppid()
        self._children: set[int] = set()  # isolates that have not exited as far as is known
        self._spared: set[int] = set()  # isolates until they are reaped
        # What had begun before the first isolate is the app's, started when it was imported. By its time, not by its id: a
        # daemon's parent may end, and leave it to us, long after the import.
        self._first_isolate_at: int | None = None
        self._wake = os.pipe()  # written to by signals
        self._path = ""
        self._app: Stem | None = None
        self._forks = True

    def serve(self) -> NoReturn:
        wake, woken = self._wake
        for descriptor in self._wake:
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            readable, _, _ = select.select([self._control.fileno(), wake], [], [], REAPER_CHECK_SECONDS)
            if os.getppid() != self._parent:
                end_children()  # the reaper has exited and cannot do it
                os._exit(0)
            if wake in readable:
                os.read(wake, 4096)
                self._report_exits()
            if self._control.fileno() in readable:
                self._answer(*_receive(self._control))

    def _answer(self, request: Request, descriptors: list[int]) -> None:
        match request:
            case LoadApp(path):
                self._path = path
                self._load()
            case StartIsolate():
                self._start(request, descriptors)
            case ReapIsolate(pid):
                os.waitpid(pid, 0)
                self._spared.discard(pid)
            case Ping():
                self._reply(Pong())
            case EndApp():
                process.call_at_end()
                os._exit(0)

    def _load(self) -> None:
        process.imports_for_isolates = True
        otlp.preload()
        try:
            self._app = load(self._path)
        except StemError as error:
            if os.environ.get("STEM_DEBUG") == "1":
                traceback.print_exception(error)  # the supervisor gets only the sentence
            self._reply(AppRefused(str(error), error.exit_code))
            os._exit(error.exit_code)
        threads = _threads()
        # A fork copies one thread and every lock the others hold.
        self._forks = not threads
        facts = msgspec.Raw(encode(manifest(self._app, threads=threads)))
        self._reply(AppLoaded(facts, bool(process.at_worker_end)))
        gc.collect()
        gc.freeze()  # so that the collector does not touch, and thereby copy, what all isolates share

    def _start(self, request: StartIsolate, descriptors: list[int]) -> None:
        if self._first_isolate_at is None:
            self._first_isolate_at = this_tick()
        pid = self._fork(request, descriptors) if self._forks else self._execute(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        self._children.add(pid)
        self._spared.add(pid)
        self._reply(IsolateStarted(request.token, pid))

    def _fork(self, request: StartIsolate, descriptors: list[int]) -> int:
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            try:
                die_with(parent)
                os.setpgid(0, 0)
                signal.set_wakeup_fd(-1)
                self._control.close()
                for descriptor in self._wake:
                    os.close(descriptor)
                serve_start(self._app, request, descriptors)
            except BaseException:  # noqa: BLE001 - it ends here, and somebody should know why
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(70)
        return pid

    def _execute(self, request: StartIsolate, descriptors: list[int]) -> int:
        words = [
            str(word) for word in (request.worker, request.slots, int(request.is_inline), os.getpid(), *descriptors)
        ]
        child = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-P", "-m", "stem.worker.fork.spawn", self._path, *words],
            pass_fds=descriptors,
            process_group=0,
        )
        child.returncode = 0  # it is reaped by its process id, not by this object
        return child.pid

    def _report_exits(self) -> None:
        looked = [(pid, os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)) for pid in self._children]
        dead = [(pid, found) for pid, found in looked if found is not None]
        # Where isolates are not forked, threads of the app may have started what is there; the reaper ends it with the worker.
        if dead and self._forks and self._first_isolate_at is not None:
            # Before the exit is reported.
            kill_children(self._spared, begun_after=self._first_isolate_at)
        for pid, found in dead:
            self._children.discard(pid)
            code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            self._reply(IsolateExited(pid, code))

    def _reply(self, reply: Reply) -> None:
        try:
            self._control.sendall(frame(msgspec.json.encode(reply)))
        except (BrokenPipeError, ConnectionResetError):
            os._exit(0)  # the supervisor has exited


def serve_start(app: Stem | None, request: StartIsolate, descriptors: list[int]) -> NoReturn:
    if app is None:
        raise RuntimeError("an isolate was requested before the app")
    if request.is_inline:
        from stem.worker.isolate.inline_threads import serve_inline

        serve_inline(app, request.worker, descriptors, request.slots)
    serve_isolate(app, request.worker, descriptors, request.slots)


def _threads() -> list[str]:
    """Those besides this one that would not survive a fork, Python's by name."""
    named = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if not named and _of_libraries():
        _try_a_fork()
    return named + [A_LIBRARYS] * len(_of_libraries())


def _of_libraries() -> list[str]:
    """The names of threads that Python does not know of, and that may hold a lock over a fork."""
    known = {str(thread.native_id) for thread in threading.enumerate()}
    names = [
        Path(f"/proc/self/task/{each}/comm").read_text() for each in os.listdir("/proc/self/task") if each not in known
    ]
    return [name for name in names if name.strip() not in READY_FOR_FORKS]


def _try_a_fork() -> None:
    """A library that is ready for forks ends its threads before one and starts them again on demand, as numpy's OpenBLAS
    does. The threads that are still there afterwards belong to libraries that are not."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _receive(control: socket.socket) -> tuple[Request, list[int]]:
    try:
        head, descriptors, _, _ = socket.recv_fds(
            control, HEAD_BYTES, DESCRIPTORS
        )  # a request is sent whole, so four come
        if not head:
            os._exit(0)  # the supervisor has closed the connection
        body = read_exactly(control, frame_length(head))
    except (ConnectionError, EOFError):
        os._exit(0)
    return msgspec.json.decode(body, type=Request), list(descriptors)


def _open_streams() -> None:
    """A worker started without streams has none to pass on; no socket of an isolate may take their numbers. What the app
    prints when it is imported comes in the form of the worker's log."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - open until the end
    sys.stderr = sys.stderr or open(STDERR, "w", closefd=False)  # noqa: SIM115
    if os.environ.get("STEM_LOG_FORMAT") == "json":
        sys.stdout = sys.stderr = LogStream("stem.app", "app.output")


def serve(control: int) -> NoReturn:
    _open_streams()
    adopt_orphans()
    Server(socket.socket(fileno=control)).serve()
