"""The child process that runs tasks: one `def` at a time, or several `async def` on one event loop."""

import asyncio
import os
import signal
import socket
import sys
import traceback
from collections.abc import Generator
from contextlib import suppress
from types import FrameType, coroutine
from typing import Any, NoReturn

from stem import signals
from stem.client.app import Stem
from stem.client.run.admit import Admitted
from stem.client.run.attempt import AttemptResult, aattempt, attempt
from stem.client.run.context import key_of, running
from stem.client.run.engines import close_engines, engine
from stem.client.task.task import AsyncTask
from stem.core.decisions.settle import Policy, settle
from stem.core.delivery import Delivery
from stem.core.errors import SoftTimeLimitExceeded, TaskRevoked
from stem.core.outcome import Done, Raised, Requeue, Revoked
from stem.core.record import TaskError
from stem.runtime.orphans import ZombieReaper, adopt_orphans, end_children
from stem.runtime.process import prefer_for_oom
from stem.telemetry import otlp, tracing
from stem.worker.isolate import wire
from stem.worker.isolate.channel import RunChannel, SupervisorStream
from stem.worker.isolate.output import TaskOutput, redirect_output
from stem.worker.isolate.status_block import StatusBlock
from stem.worker.services.nested_waits import warn_of_waiting

STREAM_LOST = 86  # exit code: a task closed the descriptors to the supervisor


class Isolate:
    def __init__(
        self,
        app: Stem,
        worker: str,
        inbox: socket.socket,
        stream: socket.socket,
        status: StatusBlock,
        output: TaskOutput,
    ) -> None:
        self._app = app
        self._tasks = app.tasks
        self._worker = worker
        self._inbox = inbox
        self._buffer = memoryview(bytearray(wire.PACKET_BYTES))
        self._stream = SupervisorStream(stream)
        self._status = status
        self._output = output
        self._pid = os.getpid()
        self._next: RunChannel | None = None  # of the `def` that is being admitted
        self._current: RunChannel | None = None  # of the `def` that runs now
        self._coroutines = CoroutineRunner(self)
        warn_of_waiting(app.store_connection)
        self.dead_children = ZombieReaper()

    def serve(self) -> NoReturn:
        """Run tasks until the supervisor closes the inbox or exits."""
        signal.signal(wire.INTERRUPT, self._interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._terminate)
        try:
            self._stream.tell(wire.IsolateReady())
            while run := self.receive():
                while run is not None and self.is_async(run):
                    # What comes back must come next: it shared the inbox with coroutines and cannot run among them.
                    run = self._coroutines.serve(run)
                if run is not None:
                    self._run(run)
        except OSError:
            os._exit(STREAM_LOST)
        close_engines()
        tracing.flush()
        os._exit(0)

    def receive(self, flags: int = 0) -> wire.Run | None:
        """Receive the next run; None when the supervisor has closed the inbox. Uses one buffer, because allocating one each time
        costs more than the message."""
        count = self._inbox.recv_into(self._buffer, 0, flags)
        return wire.read_run(self._buffer[:count]) if count else None

    def is_async(self, run: wire.Run) -> bool:
        return isinstance(self._tasks.get(run.name), AsyncTask)

    def delivery(self, run: wire.Run) -> Delivery:
        body = run.body if run.body is not None else self._stream.ask(wire.BodyRequest(run.number))
        return run.delivery(body)

    def end(self, channel: RunChannel, result: AttemptResult) -> None:
        if os.getpid() != self._pid:
            os._exit(0)  # a task forked and its child came back here; only the parent speaks for the task
        self._stream.send(
            wire.encode_ending(
                channel.number,
                result.settlement,
                result.run_seconds,
                channel.progress,
                result.meta,
                result.follow_ups,
                result.trace_id,
            )
        )

    def _run(self, run: wire.Run) -> None:
        if run.is_cleanup:
            self._reap(run)
            return
        self._next = channel = RunChannel(self._status, self._stream, 0, run.number)
        self._status.begin(0, run.number)
        delivery = self.delivery(run)
        sys.stdout = sys.stderr = self._output  # the previous task may have replaced them
        self._output.task = run.id
        try:
            result = attempt(self._app, delivery, channel, worker=self._worker, begin=self._begin)
        except (SoftTimeLimitExceeded, TaskRevoked) as error:
            # Raised outside the handler, which could not take it.
            result = interrupted(error, delivery)
        self._current = None
        try:  # noqa: SIM105 - cheaper, and this is done for every task
            self._output.end_task()
        except OSError:
            pass  # a task may have closed the pipe; its ending must still be sent
        has_ended_others = was_stopped(channel, result) and self.end_started(run)
        self.end(channel, result)
        self._status.end(
            0
        )  # after sending: an isolate that dies here has run the task, and a forked copy has exited by now
        if has_ended_others:
            os._exit(0)
        self.dead_children.reap()

    def end_started(self, run: wire.Run) -> bool:
        """End the processes that a stopped task has started. True: this process must exit as well, because something here may
        depend on them. An engine ends by itself what it has started."""
        task = self._tasks.get(run.name)
        if os.getpid() != self._pid or (task is not None and task.definition.engine is not None):
            return False
        close_engines()
        return end_children()

    def _reap(self, run: wire.Run) -> None:
        """End what the engine of a run left behind whose isolate has died, before the run is settled."""
        self._status.begin(0, run.number)
        task = self._tasks.get(run.name)
        if task is not None and task.definition.engine is not None:
            try:
                engine(task.definition.engine).reap(key_of(self._app, run.delivery(b"")))
            except Exception:  # noqa: BLE001 - the next attempt will try again, before it begins
                traceback.print_exc()
        self._stream.send(wire.encode_ending(run.number, Requeue(), None))
        self._status.end(0)

    def _begin(self, call: Admitted) -> None:
        soft_limit, hard_limit = call.soft_limit, call.hard_limit
        if soft_limit is not None or hard_limit is not None:
            self._status.limit(0, soft_limit, hard_limit)
        self._current = self._next
        self._output.add_trace()
        self._output.hide(call.sensitive_values)

    def _terminate(self, number: int, _frame: FrameType | None) -> None:
        """Exit if the supervisor has asked the task to stop. Ignore the signal otherwise: it is for the worker, which stops its
        tasks: service managers and `pkill` send it to every process they find."""
        if os.getpid() != self._pid or self._status.interruption(0, self._status.begun(0)):
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        """Runs in the main thread, between two lines; raises only where those lines are the handler's own."""
        self._coroutines.interrupt()
        context, channel = running.get(), self._current
        if channel is None or context is None or not context.is_running or os.getpid() != self._pid:
            return
        reason = channel.interruption()
        if reason is not None:
            self._current = None  # once: a handler may need time to clean up
            context.interrupt(reason, frame)


class CoroutineRunner:
    """The event loop of an isolate, while coroutines run on it. It is kept for the isolate's life: what a task leaves
    behind on it, an open client say, is there for the next."""

    def __init__(self, isolate: Isolate) -> None:
        self._isolate = isolate
        self._loop: asyncio.AbstractEventLoop | None = None
        self._free: list[int] = []
        self._running: dict[int, tuple[RunChannel, asyncio.Task[None]]] = {}
        self._reasons: dict[int, BaseException] = {}  # by run: what its next cancellation stands for
        self._raised: dict[int, type[BaseException]] = {}  # by run: the last reason, which is raised once
        self._next: wire.Run | None = None
        self._has_stopped = False  # one of those that ran here, and may have left processes
        self._idle: asyncio.Event | None = None
        self._is_closed = False

    def serve(self, first: wire.Run) -> wire.Run | None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
            self._free = list(range(self._isolate._status.slots))
        self._next = None
        self._loop.run_until_complete(self._serve(first))
        if self._is_closed:
            tracing.flush()
            os._exit(0)
        return self._next

    def interrupt(self) -> None:
        if self._running and self._loop is not None:
            self._loop.call_soon_threadsafe(self._interrupt)

    async def _serve(self, first: wire.Run) -> None:
        loop, inbox = asyncio.get_running_loop(), self._isolate._inbox
        self._idle = asyncio.Event()
        self._take(first)
        loop.add_reader(inbox, self._receive)
        try:
            await self._idle.wait()
        finally:
            loop.remove_reader(inbox)

    def _receive(self) -> None:
        while self._free and self._next is None:
            try:
                run = self._isolate.receive(socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if run is None:
                self._is_closed = True
                break
            if self._isolate.is_async(run):
                self._take(run)
            else:
                self._next = run
        asyncio.get_running_loop().remove_reader(self._isolate._inbox)
        self._end()

    def _take(self, run: wire.Run) -> None:
        slot = self._free.pop()
        channel = RunChannel(self._isolate._status, self._isolate._stream, slot, run.number)
        self._isolate._status.begin(slot, run.number)
        self._running[run.number] = channel, asyncio.get_running_loop().create_task(self._run(run, channel))

    async def _run(self, run: wire.Run, channel: RunChannel) -> None:
        isolate = self._isolate
        delivery = isolate.delivery(run)
        isolate._output.task = run.id

        def begin(call: Admitted) -> None:
            isolate._status.limit(channel.slot, call.soft_limit, call.hard_limit)
            isolate._output.add_trace()
            isolate._output.hide(call.sensitive_values)

        work = aattempt(isolate._app, delivery, channel, worker=isolate._worker, begin=begin)
        try:
            result = await _run_interruptible(work, run.number, self._reasons)
        except (SoftTimeLimitExceeded, TaskRevoked) as error:
            result = interrupted(error, delivery)
        with suppress(OSError):
            isolate._output.flush()
        self._has_stopped |= was_stopped(channel, result)
        is_last = len(self._running) == 1  # until then it is unknown which task owns a process
        has_ended_others = is_last and self._has_stopped and isolate.end_started(run)
        isolate.end(channel, result)
        isolate._status.end(channel.slot)
        if has_ended_others:
            os._exit(0)
        del self._running[run.number]
        self._raised.pop(run.number, None)
        self._free.append(channel.slot)
        if is_last:
            self._has_stopped = False
            isolate.dead_children.reap()
        if self._next is None and not self._is_closed:
            asyncio.get_running_loop().add_reader(isolate._inbox, self._receive)
            self._receive()
        self._end()

    def _end(self) -> None:
        if not self._running and (self._next is not None or self._is_closed) and self._idle is not None:
            self._idle.set()

    def _interrupt(self) -> None:
        for number, (channel, task) in list(self._running.items()):
            reason = channel.interruption()
            if reason is not None and self._raised.get(number) is not type(reason):
                self._raised[number], self._reasons[number] = type(reason), reason
                task.cancel()


@coroutine
def _run_interruptible(work: Any, number: int, reasons: dict[int, BaseException]) -> Generator[Any, Any, AttemptResult]:
    """Awaits `work`; a cancellation that has a reason reaches the handler as that reason."""
    inner = work.__await__()
    error: BaseException | None = None
    try:
        while True:
            try:
                waiting = inner.send(None) if error is None else inner.throw(error)
            except StopIteration as stop:
                result: AttemptResult = stop.value
                return result
            error = None
            try:
                yield waiting
            except asyncio.CancelledError as cancelled:
                error = reasons.pop(number, cancelled)
                # The handler may catch the reason and go on; without a reason it has cancelled itself, and has failed.
                if (task := asyncio.current_task()) is not None:
                    task.uncancel()
            except BaseException as other:  # noqa: BLE001 - whatever the loop throws belongs to the handler
                error = other
    finally:
        reasons.pop(number, None)


def interrupted(error: SoftTimeLimitExceeded | TaskRevoked, delivery: Delivery) -> AttemptResult:
    """Return the result of an attempt whose interruption was raised where the handler could no longer take it."""
    outcome: Raised | Revoked
    if isinstance(error, TaskRevoked):
        outcome = Revoked(str(error) or "revoked")
    else:
        outcome = Raised(TaskError(type(error).__name__, str(error), retryable=True))
    policy = Policy(max_retries=delivery.envelope.max_retries)
    return AttemptResult(
        settle(outcome, policy, attempt=delivery.attempt, deaths=delivery.deaths, random_fraction=0.5), 0.0
    )


def was_stopped(channel: RunChannel, result: AttemptResult) -> bool:
    """Whether the supervisor stopped it: by a revoke, a shutdown or a soft limit."""
    return type(result.settlement) is not Done and channel.interruption() is not None


def serve_isolate(app: Stem, worker: str, descriptors: list[int], slots: int) -> NoReturn:
    """In a fresh child: set up its streams and signals, then serve."""
    inbox, stream, status, output = prepare_process(descriptors, slots)
    otlp.set_up("TRACES", service="stem-worker", instance=worker)
    announce_start(worker)
    Isolate(app, worker, inbox, stream, status, output).serve()


def announce_start(worker: str) -> None:
    if signals.isolate_started.handlers:
        signals.isolate_started.send(signals.IsolateProcess(worker, os.getpid()))


def prepare_process(descriptors: list[int], slots: int) -> tuple[socket.socket, socket.socket, StatusBlock, TaskOutput]:
    inbox, stream, output, status = descriptors
    adopt_orphans()  # so that what a task starts stays below its isolate, however it detaches itself
    prefer_for_oom()
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    # A terminal's Ctrl-C is for the supervisor, which sits in another group; a stray one is not for the task.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    shared = StatusBlock.take_over(status, slots)
    task_output = TaskOutput(1)
    redirect_output(task_output)
    return socket.socket(fileno=inbox), socket.socket(fileno=stream), shared, task_output
