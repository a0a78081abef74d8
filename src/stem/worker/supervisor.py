"""The worker: loads the app, starts, runs until a signal, and stops."""

import logging
import os
import signal
from collections.abc import Callable
from threading import Event, current_thread, main_thread
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from stem.client.locate import path_of
from stem.core.envelope import check_queue
from stem.core.errors import ConfigError, StemError
from stem.core.settings.app import CONTROL_KEYS, DEFAULT_URL, from_environment
from stem.runtime import process
from stem.runtime.clock import Clock, skew_seconds
from stem.telemetry.health_server import HealthServer
from stem.worker.fork.client import ForkServerClient
from stem.worker.fork.manifest import Manifest, manifest
from stem.worker.health import WorkerHealth
from stem.worker.services.unserved_queues import warn_of_unserved
from stem.worker.settings import Mode, WorkerSettings, check

if TYPE_CHECKING:
    from stem.client.app import Stem
    from stem.worker.lifecycle import RunningWorker

log = logging.getLogger("stem.worker")

WATCH_SECONDS = 1.0
MOST_SKEW_SECONDS = 3.0
_HARDER: dict[Mode, Mode] = {"warm": "soft", "soft": "hard", "hard": "hard"}


class Worker:
    """Runs an app's tasks: `Worker(app).run()` until a signal, or `with Worker(app):` beside other things.

    Tasks run in child processes that import the app by `path` (`module:name`, or `file.py:name`), found by itself where
    the app is a module's. With `in_process=True` they run in threads of this process: for tests, and for apps that
    cannot be imported.
    """

    def __init__(
        self,
        app: "Stem | None" = None,
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
        self._client: ForkServerClient | None = None
        self._told: Manifest | None = None
        self._running: RunningWorker | None = None
        self._failure: str | None = None
        self._wake = Event()
        self._wanted: Mode | None = None
        self.has_heard_signal = False
        self._probed = WorkerHealth()
        self._health: HealthServer | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    def run(self, *, install_signal_handlers: bool = True, started: Callable[[], object] | None = None) -> int:
        """Until a signal or `stop`: TERM lets tasks end, INT and HUP tell them to stop, QUIT cuts them off; a second signal
        is harder than the first. HUP is ignored if it was ignored at the start. Returns
        the exit code: 0, or 70 after a failure. `started` is called when tasks are being claimed and signals are heard."""
        self.load()
        # Before anything is claimed, and not before the app is imported: an import that hangs can be interrupted.
        previous = self._hear_signals() if install_signal_handlers and current_thread() is main_thread() else {}
        try:
            self.start()
            if started is not None:
                started()
            self._watch()
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
        """Import the app once, in the isolates' parent process; returns its settings, queues and tasks. `start` does it
        otherwise. Raises ConfigError."""
        if self._told is not None:
            return self._told
        self._open_health()
        try:
            return self._load()
        except BaseException:
            self._close_health()
            raise

    def _load(self) -> Manifest:
        if process.imports_for_isolates:
            raise ConfigError(
                "The app's module starts a worker when it is imported, and its isolates import it; "
                "start the worker under if __name__ == '__main__':."
            )
        if self._in_process and self._app is not None:
            self._app.store_connection.is_served_here = True
            self._told = manifest(self._app)
            return self._told
        self._client = self._make_client()
        _prepare()
        try:
            self._told = _with_control_keys(_shared(self._client.manifest()))
        except BaseException:
            self._unload()
            raise
        return self._told

    def start(self) -> None:
        """Returns when tasks are being claimed. Raises ConfigError, StoreUnavailable, StoreRefused."""
        if self._running is not None:
            return
        told = self.load()
        from stem.worker.lifecycle import RunningWorker

        try:
            self._running = RunningWorker(
                self.settings,
                told,
                self._make_client,
                self.fail,
                self.stop,
                self._app if self._in_process else None,
                self._health,
            )
        except BaseException:
            self._unload()
            self._close_health()
            raise
        self._probed.running = self._running
        self.settings = self._running.settings
        client, self._client = self._client, None  # the pool's from now on
        if client is not None:
            client.worker = self.name
        self._running.start(client)
        log.info(
            "worker.started name=%s queues=%s concurrency=%d store=%s",
            self.name,
            ",".join(self._running.services.queues),
            self.settings.concurrency,
            self._running.services.store.url,
        )
        if not told.tasks:
            log.warning(
                "worker.no_tasks_found: the app has no tasks, so every call becomes a dead letter; "
                "import the modules that define them, or name them: Stem(include=['shop.tasks'])"
            )
        warn_of_unserved(self._running.services.store, {*self._running.services.queues, *told.queues})
        _warn_of_clock(self._running.services.store.upkeep.now)
        if told.threads:
            log.warning(
                "worker.fork_disabled: importing the app leaves threads running (%s), so each isolate imports it anew instead of "
                "forking; start threads, and import libraries that start some, inside tasks to make isolates cheap again",
                ", ".join(told.threads),
            )

    def stop(self, mode: Mode = "warm") -> None:
        """Ask `run` to return; without `run`, stop now."""
        self._want(mode)

    def close(self, mode: Mode = "warm") -> None:
        """Stop, and return when all is down. Tasks that had not started are back in their queues."""
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

    def _open_health(self) -> None:
        """Answer probes from now on. Raises ConfigError."""
        if self.settings.health and self._health is None:
            self._probed = WorkerHealth()
            self._health = HealthServer(self.settings.health, self._probed)

    def _close_health(self) -> None:
        health, self._health = self._health, None
        if health is not None:
            health.close()

    def _unload(self) -> None:
        """End the fork server of an app that was loaded and never started."""
        self._told, client, self._client = None, self._client, None
        if client is not None:
            client.close()

    def _make_client(self) -> ForkServerClient:
        return ForkServerClient(self._path or path_of(self._app), self.name)

    def _want(self, mode: Mode) -> None:
        order: list[Mode] = ["warm", "soft", "hard"]
        if self._wanted is None or order.index(mode) > order.index(self._wanted):
            self._wanted = mode
        self._wake.set()

    def _hear_signals(self) -> dict[int, Any]:
        modes: dict[int, Mode] = {signal.SIGTERM: "warm", signal.SIGINT: "soft", signal.SIGQUIT: "hard"}
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
            modes[signal.SIGHUP] = "soft"

        def hear(number: int, _frame: FrameType | None) -> None:
            # A second signal means that the first was not enough. Not so a hang-up: kernel and shell both tell of it. Nor one
            # after a command: a platform sends TERM after its hook before stopping, whatever the hook did.
            if self.has_heard_signal and self._wanted is not None and number != signal.SIGHUP:
                self._want(_HARDER[self._wanted])
            self.has_heard_signal = True
            self._want(modes[number])

        return {number: signal.signal(number, hear) for number in modes}

    def _watch(self) -> None:
        if self._running is not None:
            self._running.watch()
            if os.getpid() == 1:
                process.reap_orphans(self._running.services.pool.isolates.server_pid)

    def _end(self, mode: Mode) -> None:
        self._unload()
        running, self._running = self._running, None
        if running is None:
            self._close_health()
            return
        log.info("worker.stop_requested mode=%s", mode)
        running.stop(mode, lambda: self._wanted or mode)
        self._close_health()
        log.info(
            "worker.stopped %s",
            " ".join(f"{name}={count}" for name, count in sorted(running.services.accounting.counters.items())),
        )


def _warn_of_clock(store_clock: Clock) -> None:
    """The store's clock decides what is due, so a wrong one here harms no task; but log lines and `not_before` mislead."""
    try:
        skew = skew_seconds(store_clock)
    except StemError:
        return  # tasks are being claimed already, and an outage is the services' affair
    if abs(skew) > MOST_SKEW_SECONDS:
        direction = "ahead of" if skew > 0 else "behind"
        message = (
            "clock.skewed: this machine's clock is %.1f s %s the store's, which decides what is due; set it by NTP"
        )
        log.warning(message, abs(skew), direction)


def _prepare() -> None:
    """Import what will be needed while the app is being imported elsewhere: the store is most likely the environment's."""
    import stem.worker.lifecycle  # noqa: F401
    from stem.client.stores import preload

    preload(os.environ.get("STEM_BROKER_URL") or DEFAULT_URL)


def _with_control_keys(told: Manifest) -> Manifest:
    """They are not in the environment of the process that imports the app, for tasks run there. Raises ConfigError."""
    if (keys := os.environ.get(CONTROL_KEYS)) is None:
        return told
    read = from_environment({CONTROL_KEYS: keys}).control.keys
    control = msgspec.structs.replace(told.settings.control, keys=read)
    return msgspec.structs.replace(told, settings=msgspec.structs.replace(told.settings, control=control))


def _shared(told: Manifest) -> Manifest:
    """A store in the memory of one process holds nothing for another. Raises ConfigError."""
    url = told.settings.broker_url
    if url.lower().startswith("memory:"):
        raise ConfigError(
            f"{url} lives in one process alone, so a worker cannot share it; use sqlite:///stem.db, "
            "or Worker(app, in_process=True) in the process that has it."
        )
    return told
