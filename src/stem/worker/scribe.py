"""Tells the store what goes on in running tasks (begun, alive, how far), so that the pool need not wait for it."""

import logging
import time
from collections.abc import Sequence
from threading import Condition, Thread

import msgspec

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
        self._begun: list[Held] = []
        self._reports: dict[Lease, tuple[Held, Report]] = {}
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
            self._begun += helds
            self._changed.notify()

    def report(self, reports: Sequence[tuple[Held, Report]]) -> None:
        with self._changed:
            self._reports.update((held.lease, (held, report)) for held, report in reports)
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
                    self._tell_begun(begun)
                if reports:
                    self._tell(list(reports.values()))
            except StemError as error:
                log.warning("store.lost while reporting: %s", error)
            with self._changed:
                if not self._is_stopping:
                    self._changed.wait_for(lambda: self._is_stopping, PAUSE_SECONDS)

    # How long ago is reckoned at the last moment: what has waited here has run on meanwhile.

    def _tell_begun(self, helds: list[Held]) -> None:
        now = time.monotonic()
        ago = [now - held.began_at for held in helds]
        self._broker.start([held.lease for held in helds], worker=self._worker, ago_seconds=ago)

    def _tell(self, reports: list[tuple[Held, Report]]) -> None:
        now = time.monotonic()
        dated = [msgspec.structs.replace(report, ago_seconds=now - held.began_at) for held, report in reports]
        self._broker.report(dated, worker=self._worker)
