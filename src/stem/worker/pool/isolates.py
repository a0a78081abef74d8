"""The isolate processes: start, read, retire, recycle and replace them, so that there are always `concurrency` of them.

Used by the pool's thread only.
"""

import logging
import os
import selectors
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol

import msgspec

from stem.contracts.task_logs import LogLine
from stem.core.errors import StemError
from stem.runtime.process import resident_bytes
from stem.telemetry import otlp
from stem.telemetry.tracing import FLUSH_SECONDS
from stem.worker.fork.client import ForkServerClient, make_handle
from stem.worker.fork.protocol import AppLoaded, AppRefused, IsolateExited, IsolateStarted, Pong
from stem.worker.isolate import wire
from stem.worker.isolate.output import TRACE_MARK, split_level
from stem.worker.pool.isolate_state import IsolateState
from stem.worker.services.task_log import extra_of

log = logging.getLogger("stem.worker")
output_log = logging.getLogger("stem.task")

MAX_FAILED_STARTS = 5  # in a row before the worker gives up
READ_BYTES = 1 << 18
MOST_CHARACTERS = 4000  # of a line that is kept with its task
CHECK_MEMORY_SECONDS = 0.25

# Starts inline threads in this process on the given descriptors and slots; returns a function that interrupts them.
StartInlineThreads = Callable[[list[int], int], Callable[[], None]]


class IsolateListener(Protocol):
    def message_received(self, isolate: IsolateState, message: wire.Message) -> None: ...

    def isolate_exited(self, isolate: IsolateState, exit_code: int) -> None:
        """Called after its last messages and before it is removed."""

    def isolate_recycled(self, isolate: IsolateState, reason: str) -> None: ...

    def isolates_failed(self, sentence: str) -> None: ...

    def output_read(self, lines: list[LogLine]) -> None:
        """Called with what tasks have printed and logged."""


class Isolates:
    """`by_token` has all isolate processes, `by_pid` those whose process id is known."""

    def __init__(
        self,
        listener: IsolateListener,
        selector: selectors.BaseSelector,
        make_client: Callable[[], ForkServerClient],
        *,
        concurrency: int,
        async_concurrency: int,
        inline_concurrency: int,
        max_tasks: int | None = None,
        max_memory_bytes: int | None = None,
        start_inline_threads: StartInlineThreads | None = None,
    ) -> None:
        self._listener = listener
        self._selector = selector
        self._make_client = make_client
        self.concurrency = concurrency  # the target number of isolates
        self._async_concurrency = async_concurrency
        self._inline_concurrency = inline_concurrency
        self._max_tasks = max_tasks
        self._max_memory_bytes = max_memory_bytes
        self._start_inline_threads = start_inline_threads
        self._interrupt_inline_threads: Callable[[], None] | None = None
        self._client: ForkServerClient | None = None
        self.by_token: dict[int, IsolateState] = {}  # by token
        self.by_pid: dict[int, IsolateState] = {}
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._failed_starts = 0
        self._check_memory_at = 0.0
        self._is_closed = False

    @property
    def runs_in_process(self) -> bool:
        return self._start_inline_threads is not None

    @property
    def server_pid(self) -> int | None:
        return None if self._client is None else self._client.pid

    @property
    def pinged_at(self) -> float | None:
        """When the fork server was asked something that it has not answered yet."""
        return None if self._client is None else self._client.pinged_at

    def ping(self) -> None:
        if self._client is not None and not self._is_closed:
            with suppress(OSError):  # it has exited, which is noticed elsewhere
                self._client.ping()

    def open(self, client: ForkServerClient | None) -> None:
        if self.runs_in_process:
            self._start(is_inline=True)
            return
        self._client = client
        if client is not None:
            self._selector.register(client.control, selectors.EVENT_READ, self._read_fork_server)
        self._fill()

    def close(self) -> None:
        self._is_closed = True
        if otlp.is_wanted("TRACES"):
            self._await_exits(FLUSH_SECONDS)
        for isolate in list(self.by_token.values()):
            self._release(isolate)
        if self._client is not None:
            self._client.close()

    def _await_exits(self, seconds: float) -> None:
        """Let idle isolates exit by themselves: they send their last spans before that."""
        idle = [isolate.handle for isolate in self.by_token.values() if not isolate.assigned and isolate.handle.pid]
        for handle in idle:
            handle.dismiss()
        end = time.monotonic() + seconds
        for handle in idle:
            handle.stream.settimeout(max(0.01, end - time.monotonic()))
            with suppress(OSError):
                while handle.stream.recv(READ_BYTES):
                    pass  # its exit closes the stream

    def active(self) -> list[IsolateState]:
        """The isolates that accept tasks, without the inline process."""
        return [isolate for isolate in self.by_token.values() if not isolate.handle.is_inline and isolate.accepts_tasks]

    def inline(self) -> IsolateState:
        """The process for tasks with isolate=False; started for the first of them."""
        found = (isolate for isolate in self.by_token.values() if isolate.handle.is_inline and isolate.accepts_tasks)
        return next(found, None) or self._start(is_inline=True)

    def interrupt(self, isolate: IsolateState) -> None:
        """Make it read its status block."""
        if isolate.handle.is_inline and self._interrupt_inline_threads is not None:
            self._interrupt_inline_threads()
        else:
            isolate.handle.interrupt()

    def kill(self, isolate: IsolateState) -> None:
        isolate.is_killed = True
        isolate.handle.kill()

    # The number of isolates

    def resize(self, concurrency: int) -> None:
        """Start isolates, or retire the least loaded; a retired isolate finishes the tasks it holds."""
        self.concurrency = concurrency
        present = sorted(self.active(), key=lambda isolate: len(isolate.assigned))
        for isolate in present[: max(0, len(present) - concurrency)]:
            self.retire(isolate)
        self._fill()

    def recycle(self, isolate: IsolateState, reason: str) -> None:
        """Start a replacement; the isolate finishes the tasks it runs."""
        if isolate.accepts_tasks:
            log.info("isolate.recycled pid=%d reason=%s", isolate.handle.pid, reason)
            self.retire(isolate)
            self._listener.isolate_recycled(isolate, reason)
            self._fill()

    def retire(self, isolate: IsolateState) -> None:
        isolate.is_retiring = True
        self.dismiss_idle(isolate)

    def dismiss_idle(self, isolate: IsolateState) -> None:
        if isolate.is_retiring and not isolate.assigned:
            isolate.handle.dismiss()

    def count_task(self, isolate: IsolateState) -> None:
        """Count a finished task and recycle the isolate if it has reached a limit."""
        isolate.finished += 1
        if not isolate.handle.is_inline:
            if isolate.finished == isolate.max_tasks:
                self.recycle(isolate, "max-tasks")
            if self._max_memory_bytes is not None:
                # Otherwise an isolate that grows quickly would run its next task first.
                self._check_memory(isolate, is_alone=True)
        if isolate.is_retiring:
            self.dismiss_idle(isolate)

    def check_memory(self) -> None:
        """Recycle isolates whose memory, including that of their children, exceeds the limit."""
        if self._max_memory_bytes is None or time.monotonic() < self._check_memory_at:
            return
        self._check_memory_at = time.monotonic() + CHECK_MEMORY_SECONDS
        for isolate in self.active():
            self._check_memory(isolate)

    def _check_memory(self, isolate: IsolateState, *, is_alone: bool = False) -> None:
        if self._max_memory_bytes is None or not isolate.accepts_tasks or not isolate.handle.pid:
            return
        weight = resident_bytes(isolate.handle.pid, is_alone=is_alone)
        if weight > self._max_memory_bytes:
            self.recycle(isolate, f"max-memory ({weight // 1024**2} MB)")

    def _fill(self) -> None:
        for _ in range(self.concurrency - len(self.active())):
            self._start()

    # Starting

    def _start(self, *, is_inline: bool = False) -> IsolateState:
        slots = self._inline_concurrency if is_inline else self._async_concurrency
        if self._start_inline_threads is not None:
            handle, descriptors = make_handle(slots, is_inline=True)
            self._interrupt_inline_threads = self._start_inline_threads(descriptors, slots)
        elif self._client is not None:
            handle = self._client.start(slots, is_inline=is_inline)
        isolate = self.by_token[handle.token] = IsolateState(handle, slots, self._max_tasks)
        self._selector.register(handle.stream, selectors.EVENT_READ, partial(self._read_stream, isolate))
        self._selector.register(handle.output, selectors.EVENT_READ, partial(self._read_output, isolate))
        return isolate

    def mark_ready(self, isolate: IsolateState) -> None:
        isolate.is_ready = True
        self._failed_starts = 0

    # Reading

    def _read_stream(self, isolate: IsolateState) -> None:
        if isolate.handle.token not in self.by_token:
            return  # removed earlier in this round
        try:
            # One buffer for all: allocating one each time costs more than decoding.
            count = isolate.handle.stream.recv_into(self._buffer)
        except BlockingIOError:
            return
        except ConnectionError:
            count = 0
        try:
            for message in wire.decode(isolate.handle.frames, bytes(self._buffer[:count])):
                self._listener.message_received(isolate, message)
        except (ValueError, RecursionError, msgspec.MsgspecError):
            count = 0  # a task has written into the stream
        if not count:
            # It has died, or a task has corrupted its stream: either way it can report nothing more.
            self._selector.unregister(isolate.handle.stream)
            isolate.handle.kill()

    def _read_output(self, isolate: IsolateState) -> None:
        if isolate.handle.token not in self.by_token:
            return
        before, read_at = _alone(isolate), time.monotonic()
        try:
            data = os.read(isolate.handle.output, READ_BYTES)
        except BlockingIOError:
            return
        author = _author(isolate, before, read_at)
        self._tell_output(isolate, isolate.handle.lines.feed(data, author) if data else isolate.handle.lines.end())
        if not data:
            self._selector.unregister(isolate.handle.output)

    def _read_remaining(self, isolate: IsolateState) -> None:
        # Do not read a corrupted stream again: what follows may look like messages.
        is_open = isolate.handle.stream in self._selector.get_map()
        with suppress(OSError, ValueError, RecursionError, msgspec.DecodeError):  # cut off in the middle of a message
            while is_open and (data := isolate.handle.stream.recv(READ_BYTES)):
                for message in wire.decode(isolate.handle.frames, data):
                    self._listener.message_received(isolate, message)
        with suppress(OSError):
            # Once: a pipe holds less than that, and an escaped child may write forever.
            data = os.read(isolate.handle.output, READ_BYTES)
            self._tell_output(isolate, isolate.handle.lines.feed(data, _alone(isolate)))
        self._tell_output(isolate, isolate.handle.lines.end())

    def _tell_output(self, isolate: IsolateState, lines: list[tuple[str, str]]) -> None:
        if lines and (found := _log_output(isolate, lines)):
            self._listener.output_read(found)

    # Exits

    def _read_fork_server(self) -> None:
        if self._client is None:
            return
        try:
            replies = self._client.replies()
        except (EOFError, OSError):
            self._restart_fork_server()
            return
        for reply in replies:
            match reply:
                case IsolateStarted(token, pid):
                    self.by_token[token].handle.pid = pid
                    self.by_pid[pid] = self.by_token[token]
                case IsolateExited(pid, exit_code):
                    isolate = self.by_pid.pop(pid)
                    self._remove(isolate, exit_code)
                    self._client.reap(pid)
                    self._replace(isolate, exit_code)
                case Pong():
                    self._client.pinged_at = None
                case AppLoaded() | AppRefused():
                    pass

    def _replace(self, isolate: IsolateState, exit_code: int) -> None:
        if not isolate.is_ready:
            self._failed_starts += 1
        if self._failed_starts >= MAX_FAILED_STARTS:
            self._listener.isolates_failed(
                f"Isolates end (exit code {exit_code}) before they are ready; see what they wrote."
            )
        elif not self._is_closed:
            self._fill()

    def _remove(self, isolate: IsolateState, exit_code: int) -> None:
        isolate.handle.kill()  # whatever is left in its process group
        self._read_remaining(isolate)
        self._listener.isolate_exited(isolate, exit_code)
        self._release(isolate)

    def _release(self, isolate: IsolateState) -> None:
        for end in (isolate.handle.stream, isolate.handle.output):
            with suppress(KeyError):
                self._selector.unregister(end)
        isolate.handle.close()
        del self.by_token[isolate.handle.token]

    def _restart_fork_server(self) -> None:
        """Start another fork server: when it exits, the kernel kills its isolates."""
        if self._client is None or self._is_closed:
            return
        log.error("fork_server.exited: starting another")
        self._selector.unregister(self._client.control)
        self._client.close()
        self.by_pid.clear()
        for isolate in list(self.by_token.values()):
            # The kernel may not have killed it yet, and its tasks are about to run again.
            self._remove(isolate, -9)
        try:
            client = self._make_client()
            client.manifest()
        except StemError as error:
            self._listener.isolates_failed(str(error))
            return
        self.open(client)


def _alone(isolate: IsolateState) -> str:
    """The id of the task that runs there, if it is the only one."""
    running = [task.lease.id for _, task in isolate.running()]
    return running[0] if len(running) == 1 else ""


def _author(isolate: IsolateState, before: str, read_at: float) -> str:
    """The id of the task that wrote the untagged output which was read at `read_at`; `before` ran shortly before that.

    This thread may have been held up between looking and reading, and short tasks follow each other in less time than that.
    A run that began before the read has written what was read: the one before it tagged what it left in the pipe.
    """
    if isolate.is_shared:
        return before or _alone(isolate)
    status = isolate.handle.status
    task = isolate.assigned.get(status.begun(0))
    return task.lease.id if task is not None and status.started_at(0) <= read_at else before


def _log_output(isolate: IsolateState, lines: list[tuple[str, str]]) -> list[LogLine]:
    """Log the lines; returns those whose task is known."""
    found: list[LogLine] = []
    now = time.time()
    deliveries = {task.lease.id: task.delivery for task in list(isolate.assigned.values())}
    for tag, stream in lines:
        task_id, _, trace_id = tag.partition(TRACE_MARK)
        level, text = split_level(stream)
        first, _, more = text.partition("\n")
        delivery = deliveries.get(task_id)
        extra = extra_of(delivery, task_id, more=more, trace_id=trace_id)
        output_log.log(level, "%s", first, extra=extra)
        if task_id:
            attempt = 0 if delivery is None else delivery.attempt
            name = logging.getLevelName(level).lower()
            found.append(LogLine(task_id=task_id, attempt=attempt, at=now, level=name, text=text[:MOST_CHARACTERS]))
    return found
