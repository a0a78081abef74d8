"""Tasks that ask not to be isolated: threads of one process, which they share with each other and with nobody else.

The process is not the supervisor's own: a C call that keeps the interpreter's lock would hold up its leases. Only a
worker that is embedded with `in_process=True` has its lane in its own process, for that is what it was asked for.
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

from stem.client.admit import Admitted
from stem.client.app import Stem
from stem.client.attempt import attempt
from stem.client.context import TaskContext, current_task
from stem.core.errors import SoftTimeLimitExceeded, TaskRevoked
from stem.runtime.orphans import DeadChildren, end_children
from stem.worker import wire
from stem.worker.cell import Cell
from stem.worker.channel import Line, RunChannel
from stem.worker.isolate import LOST_THE_LINE, interrupted, make_private, was_stopped
from stem.worker.output import TaskOutput
from stem.worker.waiting import warn_of_waiting


class Lane:
    """As many threads as the cell has slots; a run waits in the inbox until one is free."""

    def __init__(
        self,
        app: Stem,
        worker: str,
        inbox: socket.socket,
        line: socket.socket,
        cell: Cell,
        output: TaskOutput | None = None,
    ) -> None:
        self._app = app
        self._worker = worker
        self._inbox = inbox
        self._line = Line(line)
        self._cell = cell
        self._output = output
        self._free: SimpleQueue[int] = SimpleQueue()
        self._lock = Lock()
        self._running = 0
        warn_of_waiting(app.link)
        self._has_stopped = False  # one of those that ran here, and may have left processes
        self._dead_children = DeadChildren()
        self._reachable: dict[
            int, tuple[RunChannel, TaskContext, int]
        ] = {}  # by slot: what runs there, in which thread
        for slot in range(cell.slots):
            self._free.put(slot)

    def serve(self) -> None:
        """Until the supervisor closes the inbox."""
        self._line.tell(wire.Ready())
        while True:
            slot = self._free.get()
            packet = self._inbox.recv(wire.PACKET_BYTES)
            if not packet:
                break
            with self._lock:
                self._running += 1
            Thread(target=self._run, args=(wire.read_run(packet), slot), name=f"lane-{slot}", daemon=True).start()

        self._inbox.close()
        self._line.close()

    def interrupt(self) -> None:
        """Raise in each thread what the supervisor has in store for its run."""
        with self._lock:
            for slot, (channel, context, thread) in list(self._reachable.items()):
                reason = channel.interruption()
                if reason is not None and context.is_running:
                    del self._reachable[slot]
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(type(reason)))

    def _run(self, run: wire.Run, slot: int) -> None:
        channel = RunChannel(self._cell, self._line, slot, run.number)
        self._cell.begin(slot, run.number)
        body = run.body if run.body is not None else self._line.ask(wire.AskBody(run.number))
        delivery = run.delivery(body)
        if self._output is not None:
            self._output.task = run.id

        def begin(call: Admitted) -> None:
            self._cell.limit(slot, call.soft_limit, call.hard_limit)
            with self._lock:
                self._reachable[slot] = channel, current_task(), get_ident()

        def end() -> None:
            with self._lock:
                self._reachable.pop(slot, None)
                # What was raised and has not arrived yet must not hit our own lines.
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(get_ident()), None)

        try:
            verdict = attempt(self._app, delivery, channel, worker=self._worker, begin=begin)
        except (SoftTimeLimitExceeded, TaskRevoked) as error:
            verdict = interrupted(error, delivery)
        end()
        if self._output is not None:
            self._output.flush()
        with suppress(OSError):  # whoever would have heard it has left
            self._line.send(wire.ending(run.number, verdict.settlement, verdict.run_seconds, channel.progress))
        self._cell.end(slot)
        self._leave(has_stopped=was_stopped(channel, verdict))
        self._free.put(slot)

    def _leave(self, *, has_stopped: bool) -> None:
        """When nothing runs any more, what tasks have left that were told to stop is ended, and the process with it. Whose it
        is cannot be told before."""
        with self._lock:  # nothing begins meanwhile
            self._running -= 1
            self._has_stopped |= has_stopped
            if self._running or self._output is None:  # the embedding program's children are its own
                return
            if self._has_stopped and end_children():
                os._exit(0)
            self._has_stopped = False
            self._dead_children.reap()


def become_lane(app: Stem, worker: str, descriptors: list[int], slots: int) -> NoReturn:
    """In a fresh child: the main thread hears the supervisor's signals, the others run tasks."""
    inbox, line, cell, output = make_private(descriptors, slots)
    lane = Lane(app, worker, inbox, line, cell, output)
    signal.signal(wire.INTERRUPT, lambda *_: lane.interrupt())
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, partial(_terminate, os.getpid()))
    try:
        lane.serve()
    except OSError:
        os._exit(LOST_THE_LINE)
    sys.stdout.flush()
    os._exit(0)


def _terminate(lane: int, number: int, _frame: FrameType | None) -> None:
    """Service managers and `pkill` send it to every process they find; it is for the worker, which sees to its tasks. A
    process that a task has forked ends by it, as any would."""
    if os.getpid() != lane:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)


def lane_opener(app: Stem, worker: str) -> Callable[[list[int], int], Callable[[], None]]:
    """For a worker whose tasks run in its own process: how its pool opens the lane there."""

    def open_lane(descriptors: list[int], slots: int) -> Callable[[], None]:
        inbox, line, output, cell = descriptors
        lane = Lane(app, worker, socket.socket(fileno=inbox), socket.socket(fileno=line), Cell(cell, slots))
        os.close(output)
        os.close(cell)
        Thread(target=lane.serve, name="lane", daemon=True).start()
        return lane.interrupt

    return open_lane
