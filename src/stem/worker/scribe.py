"""Tells the store what goes on in running tasks (begun, alive, how far), so that the pool need not wait for it."""

import logging
from collections.abc import Sequence
from threading import Condition, Thread

from stem.contracts.broker import Broker
from stem.core.delivery import Lease, Report
from stem.core.errors import StemError
from stem.worker.held import Held

log = logging.getLogger("stem.worker")

# At most so often; what comes meanwhile is one report, the latest.
PAUSE_SECONDS = 0.25


class Scribe:
    """The latest report a task counts. What the store would not take at once is not tried again: the next one is newer."""

    def __init__(self, broker: Broker, worker: str) -> None:
        self._broker = broker
        self._worker = worker
        self._begun: list[Lease] = []
        self._reports: dict[Lease, Report] = {}
        self._changed = Condition()
        self._is_stopping = False
        self._thread = Thread(target=self._run, name="scribe", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join(timeout=10)

    def begun(self, helds: Sequence[Held]) -> None:
        with self._changed:
            self._begun += [held.lease for held in helds]
            self._changed.notify()

    def report(self, reports: Sequence[Report]) -> None:
        with self._changed:
            self._reports.update((report.lease, report) for report in reports)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._begun and not self._reports:
                    if self._is_stopping:
                        return
                    self._changed.wait()
                begun, self._begun = self._begun, []
                reports, self._reports = self._reports, {}
            try:
                if begun:
                    self._broker.start(begun, worker=self._worker)
                if reports:
                    self._broker.report(list(reports.values()), worker=self._worker)
            except StemError as error:
                log.warning("store.lost while reporting: %s", error)
            with self._changed:
                if not self._is_stopping:
                    self._changed.wait_for(lambda: self._is_stopping, PAUSE_SECONDS)
