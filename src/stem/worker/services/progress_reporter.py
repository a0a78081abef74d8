"""Write starts, heartbeats and progress of running tasks to the store, so that the pool need not wait for it."""

import logging
import time
from collections.abc import Sequence
from threading import Condition, Thread

import msgspec

from stem.contracts.broker import Broker
from stem.core.delivery import Lease, Report
from stem.core.errors import StemError
from stem.worker.pool.in_flight import InFlightTask
from stem.worker.services.metrics import TaskMetrics

log = logging.getLogger("stem.worker")

# Between two writes; only the latest report of a task is written.
PAUSE_SECONDS = 0.25


class ProgressReporter:
    """Writes the latest report of each task. A failed write is not repeated: the next one is newer."""

    def __init__(self, broker: Broker, worker: str, task_metrics: TaskMetrics | None = None) -> None:
        self._broker = broker
        self._task_metrics = task_metrics
        self._worker = worker
        self._started: list[InFlightTask] = []
        self._reports: dict[Lease, tuple[InFlightTask, Report]] = {}
        self._changed = Condition()
        self._is_stopping = False
        self._thread = Thread(target=self._run, name="progress-reporter", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join(timeout=10)

    def add_started(self, tasks: Sequence[InFlightTask]) -> None:
        with self._changed:
            self._started += tasks
            self._changed.notify()

    def add_reports(self, reports: Sequence[tuple[InFlightTask, Report]]) -> None:
        with self._changed:
            self._reports.update((task.lease, (task, report)) for task, report in reports)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._started and not self._reports:
                    if self._is_stopping:
                        return
                    self._changed.wait()
                started, self._started = self._started, []
                reports, self._reports = self._reports, {}
            if self._task_metrics is not None:
                self._task_metrics.started([*started, *(task for task, _ in reports.values())])
            try:
                if started:
                    self._write_started(started)
                if reports:
                    self._write_reports(list(reports.values()))
            except StemError as error:
                log.warning("store.disconnected while reporting: %s", error)
            with self._changed:
                if not self._is_stopping:
                    self._changed.wait_for(lambda: self._is_stopping, PAUSE_SECONDS)

    # Ages are computed at the last moment: a task has run on while its report waited here.

    def _write_started(self, tasks: list[InFlightTask]) -> None:
        now = time.monotonic()
        ago = [now - task.started_at for task in tasks]
        self._broker.start([task.lease for task in tasks], worker=self._worker, ago_seconds=ago)

    def _write_reports(self, reports: list[tuple[InFlightTask, Report]]) -> None:
        now = time.monotonic()
        dated = [msgspec.structs.replace(report, ago_seconds=now - task.started_at) for task, report in reports]
        self._broker.report(dated, worker=self._worker)
