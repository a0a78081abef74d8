"""Pass on what the pool reports: endings to the settler, progress to the store, free capacity to the fetcher."""

from collections.abc import Callable
from threading import Thread
from typing import Any

from stem import signals
from stem.contracts.task_logs import LogLine
from stem.core.delivery import Ending, Report
from stem.core.lifecycle import EventKind
from stem.worker.ending_signals import announce
from stem.worker.fork.client import IsolateHandle
from stem.worker.isolate import wire
from stem.worker.pool.in_flight import InFlightTask
from stem.worker.services.fetcher import Fetcher
from stem.worker.services.isolate_requests import IsolateRequests
from stem.worker.services.lease_renewer import LeaseRenewer
from stem.worker.services.progress_reporter import ProgressReporter
from stem.worker.services.settler import Settler
from stem.worker.services.task_output import TaskOutputWriter


class PoolEvents:
    """The pool's listener. Every method returns at once: none waits for a store."""

    def __init__(
        self,
        *,
        settler: Settler,
        progress_reporter: ProgressReporter,
        isolate_requests: IsolateRequests,
        lease_renewer: LeaseRenewer,
        fetcher: Callable[[], Fetcher],
        record_event: Callable[[EventKind, dict[str, Any]], None],
        fail: Callable[[str], None],
        worker: str,
        task_output: TaskOutputWriter | None,
    ) -> None:
        """`fetcher` returns the current one: a stalled fetcher is replaced."""
        self._settler = settler
        self._progress_reporter = progress_reporter
        self._isolate_requests = isolate_requests
        self._lease_renewer = lease_renewer
        self._fetcher = fetcher
        self._record_event = record_event
        self._fail = fail
        self._worker = worker
        self._task_output = task_output

    def tasks_ended(self, endings: list[tuple[InFlightTask, Ending]]) -> None:
        self._settler.add(endings)
        announce(endings, self._worker)

    def tasks_started(self, tasks: list[InFlightTask]) -> None:
        self._progress_reporter.add_started(tasks)

    def progress_made(self, reports: list[tuple[InFlightTask, Report]]) -> None:
        self._progress_reporter.add_reports(reports)

    def request_received(self, handle: IsolateHandle, request: wire.Request, body: bytes) -> None:
        self._isolate_requests.answer(handle, request, body)

    def lease_extended(self, task: InFlightTask, seconds: float) -> None:
        self._lease_renewer.extend(task, seconds)

    def capacity_changed(self) -> None:
        self._fetcher().capacity_changed()

    def backlog_stalled(self) -> None:
        self._fetcher().stop_prefetching()

    def isolate_recycled(self, pid: int, reason: str) -> None:
        # In a thread: recording the event waits for the store, and handlers of the signal may take their time.
        Thread(target=self._tell_of_recycling, args=(pid, reason)).start()

    def _tell_of_recycling(self, pid: int, reason: str) -> None:
        signals.isolate_recycled.send(signals.IsolateProcess(self._worker, pid, reason))
        self._record_event(EventKind.WORKER_RECYCLED, {"isolate": pid, "reason": reason})

    def output_read(self, lines: list[LogLine]) -> None:
        if self._task_output is not None:
            self._task_output.add(lines)

    def isolates_failed(self, sentence: str) -> None:
        self._fail(sentence)
