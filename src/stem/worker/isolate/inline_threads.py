"""Run tasks with isolate=False: in threads of one process that they share only with each other.

The process is not the supervisor: a C call that holds the interpreter's lock would delay lease renewals. Only a worker with
`in_process=True` runs them in its own process.
"""

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread, get_ident
from types import FrameType
from typing import NoReturn

from stem.client.app import Stem
from stem.client.run.admit import Admitted
from stem.client.run.attempt import attempt
from stem.client.run.context import TaskContext, current_task
from stem.core.errors import SoftTimeLimitExceeded, TaskRevoked
from stem.runtime.orphans import ZombieReaper, end_children
from stem.telemetry import otlp, tracing
from stem.worker.isolate import wire
from stem.worker.isolate.channel import RunChannel, SupervisorStream
from stem.worker.isolate.main import STREAM_LOST, announce_start, interrupted, prepare_process, was_stopped
from stem.worker.isolate.output import TaskOutput
from stem.worker.isolate.status_block import StatusBlock
from stem.worker.services.nested_waits import warn_of_waiting


class InlineThreads:
    """One thread per slot of the status block; a run waits in the inbox until one is free."""

    def __init__(
        self,
        app: Stem,
        worker: str,
        inbox: socket.socket,
        stream: socket.socket,
        status: StatusBlock,
        output: TaskOutput | None = None,
    ) -> None:
        self._app = app
        self._worker = worker
        self._inbox = inbox
        self._stream = SupervisorStream(stream)
        self._status = status
        self._output = output
        self._free: SimpleQueue[int] = SimpleQueue()
        self._lock = Lock()
        self._running = 0
        warn_of_waiting(app.store_connection)
        self._has_stopped = False  # one of those that ran here, and may have left processes
        self._dead_children = ZombieReaper()
        self._reachable: dict[
            int, tuple[RunChannel, TaskContext, int]
        ] = {}  # by slot: what runs there, in which thread
        for slot in range(status.slots):
            self._free.put(slot)

    def serve(self) -> None:
        """Run tasks until the supervisor closes the inbox."""
        self._stream.tell(wire.IsolateReady())
        while True:
            slot = self._free.get()
            packet = self._inbox.recv(wire.PACKET_BYTES)
            if not packet:
                break
            with self._lock:
                self._running += 1
            Thread(target=self._run, args=(wire.read_run(packet), slot), name=f"inline-{slot}", daemon=True).start()

        self._inbox.close()
        self._stream.close()

    def interrupt(self) -> None:
        """Raise the interruption of its run in each thread that has one."""
        with self._lock:
            for slot, (channel, context, thread) in list(self._reachable.items()):
                reason = channel.interruption()
                if reason is not None and context.is_running:
                    del self._reachable[slot]
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(type(reason)))

    def _run(self, run: wire.Run, slot: int) -> None:
        channel = RunChannel(self._status, self._stream, slot, run.number)
        self._status.begin(slot, run.number)
        body = run.body if run.body is not None else self._stream.ask(wire.BodyRequest(run.number))
        delivery = run.delivery(body)
        if self._output is not None:
            self._output.task = run.id

        def begin(call: Admitted) -> None:
            self._status.limit(slot, call.soft_limit, call.hard_limit)
            if self._output is not None:
                self._output.add_trace()
                self._output.hide(call.sensitive_values)
            with self._lock:
                self._reachable[slot] = channel, current_task(), get_ident()

        def end() -> None:
            with self._lock:
                self._reachable.pop(slot, None)
                # A pending exception must not hit our own code.
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(get_ident()), None)

        try:
            result = attempt(self._app, delivery, channel, worker=self._worker, begin=begin)
        except (SoftTimeLimitExceeded, TaskRevoked) as error:
            result = interrupted(error, delivery)
        end()
        if self._output is not None:
            self._output.flush()
        with suppress(OSError):  # the supervisor has exited
            self._stream.send(
                wire.encode_ending(
                    run.number,
                    result.settlement,
                    result.run_seconds,
                    channel.progress,
                    result.meta,
                    result.follow_ups,
                    result.trace_id,
                )
            )
        self._status.end(slot)
        self._leave(has_stopped=was_stopped(channel, result))
        self._free.put(slot)

    def _leave(self, *, has_stopped: bool) -> None:
        """When the last task has ended, end what stopped tasks have left, and the process with it. Until then it is unknown
        which task owns a process."""
        with self._lock:  # nothing begins meanwhile
            self._running -= 1
            self._has_stopped |= has_stopped
            if self._running or self._output is None:  # the embedding program's children are its own
                return
            if self._has_stopped and end_children():
                os._exit(0)
            self._has_stopped = False
            self._dead_children.reap()


def serve_inline(app: Stem, worker: str, descriptors: list[int], slots: int) -> NoReturn:
    """In a fresh child: the main thread handles the supervisor's signals, the others run tasks."""
    inbox, stream, status, output = prepare_process(descriptors, slots)
    otlp.set_up("TRACES", service="stem-worker", instance=worker)
    announce_start(worker)
    threads = InlineThreads(app, worker, inbox, stream, status, output)
    signal.signal(wire.INTERRUPT, lambda *_: threads.interrupt())
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, partial(_terminate, os.getpid()))
    try:
        threads.serve()
    except OSError:
        os._exit(STREAM_LOST)
    sys.stdout.flush()
    tracing.flush()
    os._exit(0)


def _terminate(threads: int, number: int, _frame: FrameType | None) -> None:
    """Service managers and `pkill` send it to every process they find; it is for the worker, which sees to its tasks. A
    process that a task has forked ends by it, as any would."""
    if os.getpid() != threads:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)


def inline_starter(app: Stem, worker: str) -> Callable[[list[int], int], Callable[[], None]]:
    """Returns the function that starts inline threads in this process, for `in_process=True`."""

    def start_inline_threads(descriptors: list[int], slots: int) -> Callable[[], None]:
        inbox, stream, output, status = descriptors
        threads = InlineThreads(
            app, worker, socket.socket(fileno=inbox), socket.socket(fileno=stream), StatusBlock(status, slots)
        )
        os.close(output)
        os.close(status)
        Thread(target=threads.serve, name="inline", daemon=True).start()
        return threads.interrupt

    return start_inline_threads
