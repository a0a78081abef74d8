"""The worker: starts its services in order, stops them in reverse, and watches over them meanwhile."""

import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from types import FrameType, TracebackType
from typing import Any, Literal, Self

import msgspec

from stem.backends import placed
from stem.client.app import Stem
from stem.client.link import open_store
from stem.core.delivery import Delivery, Ending, Report
from stem.core.envelope import check_queue
from stem.core.errors import ConfigError, StemError
from stem.runtime import process
from stem.runtime.service import Ticker
from stem.worker import wire
from stem.worker.brood import Brood
from stem.worker.clerk import Clerk
from stem.worker.fetcher import Fetcher
from stem.worker.gate import Gate
from stem.worker.guard import Limits
from stem.worker.held import Held
from stem.worker.herald import Herald
from stem.worker.keeper import Keeper
from stem.worker.manifest import Manifest, manifest
from stem.worker.nursery import Child, Nursery
from stem.worker.pool import Pool
from stem.worker.scribe import Scribe
from stem.worker.settings import WorkerSettings, check
from stem.worker.settler import Settler
from stem.worker.turns import AsOne, InTurn

log = logging.getLogger("stem.worker")

Mode = Literal["warm", "soft", "hard"]

PRUNE_SECONDS = 60.0
WATCH_SECONDS = 1.0


class Worker:
    """Runs an app's tasks: `Worker(app).run()` until a signal, or `with Worker(app):` beside other things.

    Tasks run in child processes that import the app by `path` (`module:name`, or `file.py:name`), found by itself where
    the app is a module's. With `in_process=True` they run in threads of this process: for tests, and for apps that
    cannot be imported.
    """

    def __init__(
        self,
        app: Stem | None = None,
        *,
        path: str | None = None,
        in_process: bool = False,
        settings: WorkerSettings | None = None,
        **options: Any,
    ) -> None:
        self.settings = check(msgspec.structs.replace(settings or WorkerSettings(), **options))
        for queue in self.settings.queues:
            check_queue(queue)
        self._app = app
        self._in_process = in_process
        if app is None and path is None:
            raise ConfigError("A worker needs an app; give it one, or the path of one: Worker(path='shop.tasks:app').")
        if in_process and app is None:
            raise ConfigError(
                "A worker in this process needs the app itself; give it one: Worker(app, in_process=True)."
            )
        self._path = path
        self._nursery: Nursery | None = None
        self._told: Manifest | None = None
        self._parts: _Parts | None = None
        self._failure: str | None = None
        self._wake = Event()
        self._wanted: Mode | None = None
        self.has_heard_signal = False

    @property
    def name(self) -> str:
        return self.settings.name

    def run(self, *, install_signal_handlers: bool = True, started: Callable[[], object] | None = None) -> int:
        """Until a signal or `stop`: TERM lets tasks end, INT gives them five seconds, QUIT or a second one none. Returns
        the exit code: 0, or 70 after a failure. `started` is called when tasks are being claimed and signals are heard."""
        self.load()
        # Before anything is claimed, and not before the app is imported: an import that hangs can be interrupted.
        previous = self._hear_signals() if install_signal_handlers and current_thread() is main_thread() else {}
        try:
            self.start()
            if started is not None:
                started()
            while self._wanted is None and self._failure is None:
                self._wake.wait(WATCH_SECONDS)
                self._watch()
        finally:
            self._end(self._wanted or ("hard" if self._failure else "warm"))
            for number, handler in previous.items():
                signal.signal(number, handler)
        if self._failure is not None:
            log.error("worker.failed: %s", self._failure)
            return 70
        return 0

    def load(self) -> Manifest:
        """What the app says of itself: its settings, queues and tasks. Imported once, by the isolates' parent process;
        `start` does it where nobody has. Raises ConfigError."""
        if self._told is not None:
            return self._told
        if process.imports_for_isolates:
            raise ConfigError(
                "The app's module starts a worker when it is imported, and its isolates import it; "
                "start the worker under if __name__ == '__main__':."
            )
        if self._in_process and self._app is not None:
            self._told = manifest(self._app)
            return self._told
        self._nursery = self._make_nursery()
        try:
            self._told = _shared(self._nursery.manifest())
        except BaseException:
            self._unload()
            raise
        return self._told

    def start(self) -> None:
        """Returns when tasks are being claimed. Raises ConfigError, StoreUnavailable, StoreRefused."""
        if self._parts is not None:
            return
        told = self.load()
        try:
            self._parts = _Parts(self, told, self._app if self._in_process else None)
        except BaseException:
            self._unload()
            raise
        nursery, self._nursery = self._nursery, None  # the pool's from now on
        self._parts.start(nursery)
        log.info(
            "worker.started name=%s queues=%s concurrency=%d store=%s",
            self.name,
            ",".join(self._parts.queues),
            self.settings.concurrency,
            self._parts.store.url,
        )
        if told.threads:
            log.warning(
                "worker.spawns: importing the app leaves threads running (%s), so isolates start anew instead of forking; "
                "start threads inside tasks to make isolates cheap again",
                ", ".join(told.threads),
            )

    def stop(self, mode: Mode = "warm") -> None:
        """Ask `run` to return; without `run`, stop now."""
        self._want(mode)

    def close(self, mode: Mode = "warm") -> None:
        """Stop, and return when all is down. What had not begun is back in its queue."""
        self._want(mode)
        self._end(mode)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self.close("warm" if kind is None else "hard")

    def fail(self, sentence: str) -> None:
        """The worker cannot go on; `run` ends with 70."""
        self._failure = self._failure or sentence
        self._wake.set()

    def _unload(self) -> None:
        """Ends the fork server of an app that was loaded and never started."""
        self._told, nursery, self._nursery = None, self._nursery, None
        if nursery is not None:
            nursery.close()

    def _make_nursery(self) -> Nursery:
        return Nursery(self._path or path_of(self._app), self.name)

    def _want(self, mode: Mode) -> None:
        order: list[Mode] = ["warm", "soft", "hard"]
        if self._wanted is None or order.index(mode) > order.index(self._wanted):
            self._wanted = mode
        self._wake.set()

    def _hear_signals(self) -> dict[int, Any]:
        modes: dict[int, Mode] = {signal.SIGTERM: "warm", signal.SIGINT: "soft", signal.SIGQUIT: "hard"}

        def hear(number: int, _frame: FrameType | None) -> None:
            self.has_heard_signal = True
            again = self._wanted is not None and number != signal.SIGTERM
            self._want("hard" if again else modes[number])

        return {number: signal.signal(number, hear) for number in modes}

    def _watch(self) -> None:
        if self._parts is not None:
            self._parts.watch()

    def _end(self, mode: Mode) -> None:
        self._unload()
        parts, self._parts = self._parts, None
        if parts is None:
            return
        log.info("worker.stopping mode=%s", mode)
        parts.stop(mode, lambda: self._wanted or mode)
        log.info(
            "worker.stopped %s", " ".join(f"{name}={count}" for name, count in sorted(parts.settler.counters.items()))
        )


class _Parts:
    """The services of a running worker, and what passes between them."""

    def __init__(self, worker: Worker, told: Manifest, app: Stem | None) -> None:
        settings = worker.settings
        self._worker = worker
        self._store_settings = placed(told.settings)
        self.store = app.store if app is not None else open_store(self._store_settings)
        self._owns_store = app is None
        self._shares_store = app is not None and not self.store.capabilities.crosses_processes
        self.queues = list(settings.queues) or told.queues
        self.paused: set[str] = set()
        self.settler = Settler(self.store.broker, settings.name, self._settled)
        self.pool = Pool(
            partial(
                Brood,
                make_nursery=worker._make_nursery,
                concurrency=settings.concurrency,
                async_concurrency=settings.async_concurrency,
                lane_concurrency=settings.concurrency if app is not None else settings.lane_concurrency,
                max_tasks=settings.max_tasks_per_isolate,
                max_memory_bytes=settings.max_memory_per_isolate,
                open_lane=None if app is None else _lane_opener(app, settings.name),
            ),
            self,
            Limits(settings.soft_limit, settings.hard_limit, settings.grace_seconds),
        )
        facts = {task.name: task for task in told.tasks}
        self.gate = Gate(
            self.store.limiter, facts, lease_seconds=settings.lease_seconds, fails_open=settings.limiter_fails_open
        )
        self._keeper = Keeper(self.store, self.pool, settings.lease_seconds)
        self._scribe = Scribe(self.store.broker, settings.name)
        self._clerk = Clerk(self.store.broker)
        self._herald = Herald(self.store, self.pool, settings, self.queues, self.settler.counters)
        self._tickers = [
            Ticker("keeper", self._keeper.tick_seconds, self._keeper.tick),
            Ticker("herald", settings.heartbeat_seconds, self._herald.beat),
            Ticker("janitor", settings.reclaim_seconds, self._reclaim),
            Ticker("pruner", PRUNE_SECONDS, self.store.upkeep.prune),
        ]
        self._rebuilt = False
        self.fetcher = self._make_fetcher()

    def start(self, nursery: Nursery | None) -> None:
        for service in (self.settler, self._scribe, self._clerk):
            service.start()
        self.pool.start(nursery)
        self.fetcher.start()
        for ticker in self._tickers:
            ticker.start()

    def stop(self, mode: Mode, wanted: Callable[[], Mode]) -> None:
        """Stop the fetcher before the pool: a lease claimed now would wait for a slot that never comes."""
        self.fetcher.stop()
        self.pool.drain("the worker is shutting down")
        self._let_end(mode, wanted)
        self.pool.cut_off("the worker was shut down")
        self.pool.wait_until_quiet(10.0)
        for ticker in self._tickers:
            ticker.stop()
        for service in (self._clerk, self._scribe, self.settler):
            service.stop()
        self.pool.stop()
        with suppress(StemError):
            self._herald.leave()
        if self._owns_store:
            self.store.upkeep.close()

    def _let_end(self, mode: Mode, wanted: Callable[[], Mode]) -> None:
        """Warm waits for what runs, soft tells it to stop and waits for its grace, hard waits for nothing."""
        settings, began_at, told_at = self._worker.settings, time.monotonic(), 0.0
        while mode != "hard" and not self.pool.wait_until_quiet(0.1):
            mode, now = wanted(), time.monotonic()
            if mode == "warm" and settings.warm_seconds is not None and now - began_at > settings.warm_seconds:
                mode = "soft"
            if mode == "soft" and not told_at:
                told_at = now
                self.pool.stop_running("the worker is shutting down")
            if told_at and now - told_at > settings.grace_seconds + 1.0:
                return

    def watch(self) -> None:
        """A fetcher that finishes no poll gets a new connection once; after that the worker gives up. So it does where
        nothing would be run or settled any more."""
        for name, part in (("pool", self.pool), ("settler", self.settler)):
            if not part.is_alive:
                self._worker.fail(f"The thread of the {name} has ended, its log says why; restart me.")
                return
        stall = self._worker.settings.stall_seconds
        if time.monotonic() - self.fetcher.polled_at < stall:
            self._rebuilt = self._rebuilt and not self.fetcher.has_polled
            return
        if self._rebuilt:
            self._worker.fail(
                f"No poll of the store was finished for {stall:g} s, also over a new connection; restart me."
            )
            return
        log.error("fetcher.stalled for %g s; rebuilding its connection", stall)
        self._rebuilt = True
        old, self.fetcher = self.fetcher, self._make_fetcher()
        Thread(target=old.stop, name="fetcher-undertaker", daemon=True).start()
        self.fetcher.start()

    # What the pool tells

    def ended(self, endings: list[tuple[Held, Ending]]) -> None:
        self.settler.add(endings)

    def begun(self, helds: list[Held]) -> None:
        self._scribe.begun(helds)

    def reported(self, reports: list[Report]) -> None:
        self._scribe.report(reports)

    def asked(self, child: Child, word: wire.AskBody | wire.AskPush, body: bytes) -> None:
        self._clerk.asked(child, word, body)

    def extended(self, held: Held, seconds: float) -> None:
        self._keeper.extend(held, seconds)

    def has_room(self) -> None:
        self.fetcher.has_room()

    def is_stuck(self) -> None:
        self.fetcher.hold_nothing()

    def recycled(self, pid: int, reason: str) -> None: ...

    def failed(self, sentence: str) -> None:
        self._worker.fail(sentence)

    def _make_fetcher(self) -> Fetcher:
        store = self.store if self._shares_store else open_store(self._store_settings)
        settings = self._worker.settings
        return Fetcher(
            store,
            self.pool,
            (InTurn if self._store_settings.fair_share else AsOne)(store.broker, self.queues, self.paused),
            self._offer,
            prefetch=settings.prefetch,
            lease_seconds=settings.lease_seconds,
            owns_store=not self._shares_store,
        )

    def _offer(self, deliveries: list[Delivery]) -> None:
        helds, throttled = self.gate.sort(deliveries)
        if helds:
            self.pool.offer(helds)
            self._keeper.keep_short(helds)
        if throttled:
            self.settler.add(throttled)

    def _settled(self, helds: Sequence[Held]) -> None:
        self.pool.settled(helds)
        self.gate.free(list(helds))

    def _reclaim(self) -> None:
        reclaimed = self.store.broker.reclaim()
        if reclaimed.returned or reclaimed.dead:
            log.warning("leases.reclaimed returned=%d dead=%d", len(reclaimed.returned), len(reclaimed.dead))


def _shared(told: Manifest) -> Manifest:
    """A store in the memory of one process holds nothing for another. Raises ConfigError."""
    url = told.settings.broker_url
    if url.lower().startswith("memory:"):
        raise ConfigError(
            f"{url} lives in one process alone, so a worker cannot share it; use sqlite:///stem.db, "
            "or Worker(app, in_process=True) in the process that has it."
        )
    return told


def path_of(app: Stem | None) -> str:
    """Where another process can import the app from. Raises ConfigError."""
    # A script comes last: what it took from a module is better found there.
    for name, module in sorted(sys.modules.items(), key=lambda item: item[0] == "__main__"):
        for attribute, value in list(vars(module).items()) if hasattr(module, "__dict__") else ():
            if value is app and app is not None:
                return _importable(name, module, attribute)
    raise ConfigError(
        "The app is no module's attribute, so isolates cannot import it; make it one, "
        "or run the tasks here with Worker(app, in_process=True)."
    )


def _importable(name: str, module: Any, attribute: str) -> str:
    if name != "__main__":
        return f"{name}:{attribute}"
    spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
    if spec is not None:
        return f"{spec.name}:{attribute}"
    if file is None:
        raise ConfigError("An app of an interactive session cannot be imported; use Worker(app, in_process=True).")
    return f"{Path(file).absolute()}:{attribute}"


def _lane_opener(app: Stem, worker: str) -> Callable[[list[int], int], Callable[[], None]]:
    def open_lane(descriptors: list[int], slots: int) -> Callable[[], None]:
        from stem.worker.cell import Cell
        from stem.worker.lane import Lane

        inbox, line, output, cell = descriptors
        lane = Lane(app, worker, socket.socket(fileno=inbox), socket.socket(fileno=line), Cell(cell, slots))
        os.close(output)
        os.close(cell)
        Thread(target=lane.serve, name="lane", daemon=True).start()
        return lane.interrupt

    return open_lane
