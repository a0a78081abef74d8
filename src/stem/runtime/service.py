"""Background services: a function that a thread calls at intervals."""

import logging
from collections.abc import Callable
from threading import Event, Thread
from typing import Protocol

log = logging.getLogger("stem.service")


class Service(Protocol):
    """A part of the worker that is started and stopped."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Ticker:
    """Calls `duty` every `seconds` (a number or a function), first at once, or else after the first `seconds`. An error is
    logged, and the calls go on."""

    def __init__(
        self,
        name: str,
        seconds: float | Callable[[], float],
        duty: Callable[[], object],
        *,
        starts_at_once: bool = True,
    ) -> None:
        self._name = name
        self._seconds = seconds
        self._duty = duty
        self._starts_at_once = starts_at_once
        self._stopped = Event()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def begin_no_more(self) -> None:
        """Announce the stop, so that several tickers finish their last calls at the same time."""
        self._stopped.set()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _run(self) -> None:
        failures = 0
        if not self._starts_at_once:
            self._pause()
        while not self._stopped.is_set():
            try:
                self._duty()
                if failures:
                    log.info("service.recovered name=%s after %d failures", self._name, failures)
                failures = 0
            except Exception as error:  # noqa: BLE001 - a duty goes on; the store may be back next time
                failures += 1
                if failures == 1:
                    log.warning("service.failed name=%s: %s Trying again.", self._name, error)
            self._pause()

    def _pause(self) -> None:
        self._stopped.wait(self._seconds() if callable(self._seconds) else self._seconds)
