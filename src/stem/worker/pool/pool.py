"""The pool: hands tasks to isolates, receives their endings, acts on limits and crashes. It never waits for a store.
Everything happens in one thread; other threads post calls to it. So its state is always consistent as seen from here."""

import logging
import selectors
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import nullcontext
from functools import partial
from threading import Event, Lock, Thread
from typing import Any

from stem.contracts.task_logs import LogLine
from stem.core.decisions.routing import is_same_or_tenant_queue
from stem.core.delivery import Ending, Report
from stem.core.envelope import call_facts
from stem.core.outcome import Died, Done, Interrupted, Outcome, Revoked
from stem.worker.fork.client import ForkServerClient
from stem.worker.gc_tuning import collect_rarely
from stem.worker.isolate import wire
from stem.worker.pool.backlog import Backlog
from stem.worker.pool.call_queue import CallQueue
from stem.worker.pool.crashes import OomKills, after_crash, settlement_for
from stem.worker.pool.fork_server_ping import ForkServerPing
from stem.worker.pool.in_flight import InFlightTask, InFlightTasks
from stem.worker.pool.isolate_state import IsolateState, RunTimes, running_tasks
from stem.worker.pool.isolates import IsolateListener, Isolates
from stem.worker.pool.listener import PoolListener
from stem.worker.pool.termination import Terminator
from stem.worker.pool.watchdog import (
    ENGINE_SECONDS,
    Limits,
    PrefetchBlocked,
    ProgressMade,
    RunStarted,
    StateCorrupted,
    Watchdog,
)

log = logging.getLogger("stem.worker")

_NO_META: dict[str, Any] = {}
STALL_SECONDS = 1.0  # how long a task may wait here for isolates that finish nothing


class Pool:
    def __init__(
        self,
        make_isolates: Callable[[IsolateListener, selectors.BaseSelector], Isolates],
        in_flight: InFlightTasks,
        limits: Limits,
    ) -> None:
        self._listener: PoolListener  # set at the start: it holds services that hold the pool
        self._limits = limits
        self._in_flight = in_flight
        self._selector = selectors.DefaultSelector()
        self.isolates = make_isolates(self, self._selector)
        self._client: ForkServerClient | None = None
        self._offered = 0  # counted by the threads that offer
        self._offer_lock = Lock()
        self._finished, self._finished_at = 0, 0.0  # by the pool's thread
        self._run_times = RunTimes()
        self._backlog = Backlog(self.isolates, self._run_times)
        self._terminator = Terminator(self.isolates, self._backlog, self._end)
        self._watchdog = Watchdog(self.isolates, limits)
        self._paused: set[str] = set()
        self._endings: list[tuple[InFlightTask, Ending]] = []
        self._calls = CallQueue(self._selector)
        self._post = self._calls.post
        self.fork_server_ping = ForkServerPing(self.isolates, self._post)
        self._oom_kills = OomKills()
        self._is_draining = False
        self._is_stopped = False
        self._thread = Thread(target=self._run, name="pool", daemon=True)

    # For other threads

    def start(self, client: ForkServerClient | None, listener: PoolListener) -> None:
        self._client, self._listener = client, listener
        self._thread.start()

    def offer(self, tasks: list[InFlightTask]) -> None:
        """Queue tasks for the isolates."""
        with self._offer_lock:
            self._offered += len(tasks)
        self._post(partial(self._enqueue, tasks))

    def drop_lost(self, tasks: list[InFlightTask]) -> None:
        """Stop tasks whose leases belong to other workers now; their endings are not reported."""
        self._post(partial(self._drop_lost, tasks))

    def catch_up(self, timeout_seconds: float) -> None:
        """Wait until the pool has read what its isolates have sent so far, and which have died; at most that long."""
        done = Event()
        self._calls.post_after_select(done.set)  # the select of this round may be over, or a thaw has cut it short
        done.wait(timeout_seconds)

    def drain(self, reason: str) -> None:
        """Hand out nothing more; tasks that have not started go back to their queues."""
        self._post(partial(self._drain, reason))

    def cut_off(self, reason: str) -> None:
        """Kill what runs; it goes back to its queue."""
        self._post(partial(self._cut_off, reason))

    def stop_running(self, reason: str) -> None:
        """Ask running tasks to stop and go back to their queues; those that do not stop are killed after the grace period."""
        self._post(partial(self._terminator.stop_all, reason))

    def revoke(self, reasons: Mapping[str, str], *, terminate: bool, signal_number: int) -> "Future[dict[str, str]]":
        """Cancel waiting tasks; ask running ones to stop if `terminate`. Returns what became of each task here, by id."""
        answer: Future[dict[str, str]] = Future()
        self._post(lambda: answer.set_result(self._revoke(reasons, terminate, signal_number)))
        return answer

    def pause(self, queues: Iterable[str]) -> None:
        """Start nothing from these queues; their tasks that have not started go back."""
        self._post(partial(self._pause, set(queues)))

    def resume(self, queues: Iterable[str]) -> None:
        self._post(partial(self._paused.difference_update, set(queues)))

    def resize(self, concurrency: int) -> None:
        self._post(partial(self.isolates.resize, concurrency))

    def recycle(self, pids: Iterable[int] | None, reason: str) -> None:
        """Replace these isolates, or all, when they have finished what they run."""
        self._post(partial(self._recycle, None if pids is None else set(pids), reason))

    def stop(self) -> None:
        self._post(self._stop)
        self._thread.join(timeout=10)

    @property
    def concurrency(self) -> int:
        return self.isolates.concurrency

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def finished(self) -> int:
        """How many tasks have ended here so far."""
        return self._finished

    @property
    def load(self) -> int:
        """How many tasks wait or run here."""
        return self._offered - self._finished

    @property
    def occupied(self) -> int:
        """How many isolates the load occupies: coroutines share one, and inline tasks occupy none."""
        if self.isolates.runs_in_process:
            return self.load
        return self.load - sum(isolate.sharing for isolate in list(self.isolates.by_token.values()))

    @property
    def waiting(self) -> int:
        """How many tasks have not started."""
        return max(0, self.load - len(self.running))

    @property
    def running(self) -> list[tuple[InFlightTask, float]]:
        """The tasks that run at this moment, each with its run time so far."""
        return [run for _, runs in self.running_by_isolate for run in runs]

    @property
    def running_by_isolate(self) -> list[tuple[IsolateState, list[tuple[InFlightTask, float]]]]:
        """The same, by isolate; also those that run nothing."""
        return running_tasks(list(self.isolates.by_token.values()))

    @property
    def grace_seconds(self) -> float:
        """How long the tasks in flight may take to end once they are asked to stop."""
        has_engine = any(task.has_engine for task in self._in_flight.all())
        return self._limits.grace + (ENGINE_SECONDS if has_engine else 0.0)

    @property
    def pids(self) -> list[int]:
        return list(self.isolates.by_pid)

    # The thread

    def _run(self) -> None:
        self._calls.open()
        try:
            # Where tasks run in this process, the garbage collector is theirs.
            with nullcontext() if self.isolates.runs_in_process else collect_rarely():
                self.isolates.open(self._client)
                while not self._is_stopped:
                    self._run_once()
        finally:
            self.isolates.close()
            self._selector.close()
            self._calls.close()

    def _run_once(self) -> None:
        for key, _ in self._selector.select(self._watchdog.timeout()):
            key.data()
        self._calls.make_all()
        self._check_running()
        if self._backlog.hand_out():
            self._watchdog.wake()
        if self._endings:
            endings, self._endings = self._endings, []
            self._listener.tasks_ended(endings)
        self._listener.capacity_changed()

    def _stop(self) -> None:
        self._is_stopped = True

    # Tasks in

    def _enqueue(self, tasks: list[InFlightTask]) -> None:
        tasks = [task for task in tasks if not task.is_ended and not task.lease_lost]  # revoked or lost on the way here
        if self._is_draining:
            self._return(tasks, "the worker is shutting down")
            return
        self._backlog.put(tasks)
        if self._paused:
            self._pause(set())

    # Endings out

    def message_received(self, isolate: IsolateState, message: wire.Message) -> None:
        match message:
            case wire.RunEnded():
                self._run_ended(isolate, message)
            case wire.IsolateReady():
                self.isolates.mark_ready(isolate)
            case wire.ExtendLease(number, seconds):
                if number in isolate.assigned:
                    self._listener.lease_extended(isolate.assigned[number], wire.check_seconds(seconds))
            case wire.BodyRequest(number):
                body = isolate.assigned[number].delivery.body if number in isolate.assigned else b""
                self._listener.request_received(isolate.handle, message, body)
            case _:
                self._listener.request_received(isolate.handle, message, b"")

    def _run_ended(self, isolate: IsolateState, message: wire.RunEnded) -> None:
        settlement = wire.settlement_of(message)
        meta = message.meta if message.progress else _NO_META
        task = isolate.assigned.pop(message.number, None)
        self.isolates.count_task(isolate)
        if task is None or task.lease_lost:
            return
        task.trace_id = message.trace_id
        if task.cleanup_outcome is not None:
            self._end(task, task.cleanup_outcome, task.ran_seconds)
            return
        if task.stop_outcome is not None and not isinstance(settlement, Done):
            settlement = settlement_for(task, task.stop_outcome, self._limits.max_deaths)  # it was asked to stop
            task.is_decided_here = not isinstance(task.stop_outcome, Revoked)
        elif message.run_seconds is not None:
            self._run_times.add(task.delivery.name, message.run_seconds)
        ending = Ending(task.lease, settlement, message.run_seconds, meta, (), call_facts(task.delivery.body))
        self._finish(task, ending if not message.more else wire.with_more(ending, message))

    def _end(self, task: InFlightTask, outcome: Outcome, run_seconds: float | None) -> None:
        """End a task on behalf of an isolate that cannot report it."""
        if not task.lease_lost:
            task.is_decided_here = True
            facts = call_facts(task.delivery.body)
            settlement = settlement_for(task, task.cleanup_outcome or outcome, self._limits.max_deaths)
            self._finish(task, Ending(task.lease, settlement, run_seconds, facts=facts))

    def _finish(self, task: InFlightTask, ending: Ending) -> None:
        task.is_ended = True
        self._finished += 1
        task.ended_at = self._finished_at = time.monotonic()
        self._endings.append((task, ending))

    def _return(self, tasks: list[InFlightTask], reason: str) -> None:
        """Send tasks that have not started back to their queues."""
        for task in tasks:
            self._end(task, Interrupted(reason), None)

    # Limits

    def _check_running(self) -> None:
        now = time.monotonic()
        if not self._watchdog.is_due(now):
            return
        started: list[InFlightTask] = []
        reports: list[tuple[InFlightTask, Report]] = []
        for isolate, finding in self._watchdog.findings(now):
            match finding:
                case RunStarted(task):
                    started.append(task)
                case ProgressMade(task, report):
                    reports.append((task, report))
                case PrefetchBlocked():
                    self._take_back(isolate)
                case StateCorrupted():
                    self._replace_corrupted(isolate)
                case _:
                    self._terminator.act_on(isolate, finding)
        if started:
            self._listener.tasks_started(started)
        if reports:
            self._listener.progress_made(reports)
        first = self._backlog.first
        if first is not None and now - max(self._finished_at, first.claimed_at) > STALL_SECONDS:
            self._return_stalled()
        self.isolates.check_memory()
        self._watchdog.schedule(now)

    def _take_back(self, isolate: IsolateState) -> None:
        """Put what it has not started back into the backlog."""
        self._backlog.put_back(isolate.take_back())

    def _replace_corrupted(self, isolate: IsolateState) -> None:
        self._take_back(isolate)
        if isolate.assigned:
            isolate.is_corrupt = True
            message = "isolate.corrupted pid=%d: a task has written where only the worker writes"
            log.warning(message, isolate.handle.pid)
            isolate.handle.kill()

    def _return_stalled(self) -> None:
        """All isolates are busy with long tasks; another worker may be free."""
        tasks = self._backlog.take_isolated()
        self._backlog.put_back([task for task in tasks if task.cleanup_outcome is not None])  # these have run
        self._listener.backlog_stalled()
        self._return([task for task in tasks if task.cleanup_outcome is None], "claimed too early")

    # Revokes, pauses, lost leases

    def _revoke(self, reasons: Mapping[str, str], terminate: bool, signal_number: int) -> dict[str, str]:
        answer = {}
        for task in [task for task in self._in_flight.all() if task.lease.id in reasons]:
            if not task.is_ended and not task.lease_lost:
                answer[task.lease.id] = self._terminator.revoke(
                    task, reasons[task.lease.id], terminate=terminate, signal_number=signal_number
                )
        return answer

    def _pause(self, queues: set[str]) -> None:
        self._paused |= queues
        for isolate in self.isolates.by_token.values():
            if any(self._is_paused(task) for task in isolate.assigned.values()):
                self._take_back(isolate)
        self._return(self._backlog.take_out(self._is_paused), "the queue is paused")

    def _is_paused(self, task: InFlightTask) -> bool:
        name = task.delivery.queue
        return task.cleanup_outcome is None and any(is_same_or_tenant_queue(paused, name) for paused in self._paused)

    def _recycle(self, pids: set[int] | None, reason: str) -> None:
        for isolate in self.isolates.active():
            if pids is None or isolate.handle.pid in pids:
                self.isolates.recycle(isolate, reason)

    def _drop_lost(self, tasks: list[InFlightTask]) -> None:
        for task in tasks:
            if task.lease_lost or task.is_ended:
                continue
            task.lease_lost = True
            self._finished += 1
            self._in_flight.remove([task])
            self._terminator.stop_lost(task)
        self._backlog.take_out(lambda task: task.lease_lost)

    # Isolates that end or are replaced

    def isolate_exited(self, isolate: IsolateState, exit_code: int) -> None:
        is_oom = self._oom_kills.has_killed(isolate, exit_code)
        left = after_crash(isolate, exit_code, out_of_memory=is_oom)
        for task, outcome, ran_seconds in left.ended:
            if task.stop_outcome is None and not isolate.is_killed:
                pid = isolate.handle.pid
                log.warning("isolate.crashed pid=%d code=%d oom=%s task=%s", pid, exit_code, is_oom, task.lease.id)
            if task.has_engine and task.cleanup_outcome is None:
                task.await_cleanup(outcome, ran_seconds)  # also in a shutdown: nobody else may come to clean up
                left.unstarted.append(task)
            else:
                task.has_died = isinstance(outcome, Died)
                self._end(task, outcome, ran_seconds)
        self._backlog.put_back([task for task in left.unstarted if not task.lease_lost])
        if self._is_draining:
            self._drain("the worker is shutting down")

    def isolate_recycled(self, isolate: IsolateState, reason: str) -> None:
        self._take_back(isolate)
        self._listener.isolate_recycled(isolate.handle.pid, reason)

    def isolates_failed(self, sentence: str) -> None:
        self._listener.isolates_failed(sentence)

    def output_read(self, lines: list[LogLine]) -> None:
        self._listener.output_read(lines)

    # The end

    def _drain(self, reason: str) -> None:
        self._is_draining = True
        for isolate in self.isolates.by_token.values():
            self._take_back(isolate)
        self._return(self._backlog.take_out(lambda task: task.cleanup_outcome is None), reason)

    def _cut_off(self, reason: str) -> None:
        self._drain(reason)
        self._terminator.kill_all(reason)
