"""The scheduler as a process: declared entries, the beat, a heartbeat and control, until a signal."""

import logging
import os
import re
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING

from stem.client.schedules.file import read_schedules
from stem.control.caller import COMMANDS_EXTRA, SIGNED_EXTRA
from stem.control.listener import ControlListener
from stem.control.responder import Responder
from stem.control.transport_factory import command_receivers
from stem.core.errors import StemError
from stem.core.heartbeat import SCHEDULER, Heartbeat
from stem.runtime.keys import Keyring
from stem.runtime.process import resident_bytes
from stem.runtime.service import Ticker
from stem.scheduler.beat import Beat
from stem.scheduler.declared import Declarations, store_declared
from stem.scheduler.entries import EntryWriter
from stem.scheduler.health import SchedulerHealth
from stem.scheduler.steering import COMMANDS, BeatSteering
from stem.telemetry import otel_metrics, otlp
from stem.telemetry.health_server import HealthServer

if TYPE_CHECKING:
    from stem.client.app import Stem

log = logging.getLogger("stem.beat")

HEARTBEAT_SECONDS = 10.0
LISTEN_SECONDS = 1.0
PRUNE_SECONDS = 60.0
DECLARE_SECONDS = 60.0  # entries that were lost or broken meanwhile are written again


def default_name() -> str:
    host = re.sub(r"[^A-Za-z0-9._\-]", "-", socket.gethostname()).strip("-._") or "beat"
    return f"beat-{host[:80]}-{os.getpid()}-{os.urandom(2).hex()}"


class Scheduler:
    """Runs the schedules of an app: `Scheduler(app).run()` until a signal, or `with Scheduler(app):` beside other things."""

    def __init__(
        self,
        app: "Stem",
        *,
        name: str = "",
        origin: str = "app",
        config_file: Path | None = None,
        health: str | None = None,
    ) -> None:
        """`origin` is the app's path, so that entries which it no longer declares are told from another app's. The schedules
        of the configuration file are stored with those of the code. `health` is the address of the probes.
        Raises ConfigError."""
        self.name = name or default_name()
        self._app = app
        self._origin = origin
        self._filed = None if config_file is None else Declarations("file", origin, read_schedules(config_file))
        self._broken: list[str] = []  # entries that were logged as broken
        self._stopped = Event()
        self._beat = Beat(app, self.name)
        self._steering = BeatSteering(self.name, app.settings.namespace, self._beat, self._stopped.set)
        self._probed = SchedulerHealth(app.store, self._beat, self._steering)
        self._health_address = health
        self._health: HealthServer | None = None
        self._end_telemetry: Callable[[], None] | None = None
        self._tickers: list[Ticker] = []
        self._control: ControlListener | None = None

    def run(self, *, install_signal_handlers: bool = True, started: Callable[[], object] | None = None) -> int:
        """Until a signal or a command; returns the exit code."""
        if install_signal_handlers:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
                signal.signal(number, self._hear)
        self.start()
        try:
            if started is not None:
                started()
            self._stopped.wait()
        finally:
            self.stop()
        return 0

    def start(self) -> None:
        """Store the declared entries and begin to enqueue. Raises StemError."""
        if self._health_address is not None:
            self._health = HealthServer(self._health_address, self._probed)
        try:
            self._start()
        except BaseException:
            if self._health is not None:
                self._health.close()
            raise

    def stop(self) -> None:
        self._steering.is_draining = True
        self._beat.stop()
        for ticker in self._tickers:
            ticker.stop()
        if self._control is not None:
            self._control.stop_receiving()
        with suppress(StemError):
            self._app.store.heartbeats.forget(self.name)
        if self._control is not None:
            self._control.stop()
        if self._end_telemetry is not None:
            self._end_telemetry()
        otel_metrics.withdraw(self._probed.metrics)
        if self._health is not None:
            self._health.close()
        log.info("beat.stopped name=%s fired=%d", self.name, self._beat.fired)

    def __enter__(self) -> "Scheduler":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        app = self._app
        self._end_telemetry = otlp.set_up("METRICS", "TRACES", service="stem-beat", instance=self.name)
        self._store_declared()
        self._control = self._make_control()
        self._control.start()
        self._beat.start()
        self._tickers = [
            Ticker("heartbeat", HEARTBEAT_SECONDS, self._send_heartbeat),
            Ticker("declared", DECLARE_SECONDS, self._store_declared),
            Ticker("pruner", PRUNE_SECONDS, app.store.upkeep.prune),
        ]
        for ticker in self._tickers:
            ticker.start()
        otel_metrics.publish(self._probed.metrics)
        self._probed.is_started = True
        log.info("beat.started name=%s entries=%d", self.name, len(app.store.schedules.all()))

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._stopped.set()

    def _store_declared(self) -> None:
        coded = Declarations("code", self._origin, self._app.schedules)
        owners = [coded] if self._filed is None else [coded, self._filed]
        store_declared(EntryWriter.of(self._app.store, self._app.settings), *owners)
        broken = self._app.store.schedules.broken()
        for entry_id in broken:
            if entry_id not in self._broken:
                log.error("schedule.unreadable id=%s: write it anew, or remove it with: stem schedule remove", entry_id)
        self._broken = broken

    def _make_control(self) -> ControlListener:
        settings, store = self._app.settings, self._app.store
        responder = Responder(
            self._steering,
            namespace=settings.control_namespace,
            clock=store.upkeep.now,
            keyring=Keyring.parse(settings.control_keys),
            commands_per_second=settings.control.commands_per_second,
            commands=COMMANDS,
        )
        self._steering.command_counts = lambda: responder.counts
        health = self._health
        probes = health.hand_over() if health is not None and health.address == settings.control.http else None
        transports = command_receivers(settings, store.mail, self.name, probes=probes)
        return ControlListener(transports, responder, listen_seconds=LISTEN_SECONDS)

    def _send_heartbeat(self) -> None:
        settings, store = self._app.settings, self._app.store
        reached_by = {} if self._control is None else self._control.reached_by(settings.control_namespace)
        heartbeat = Heartbeat(
            worker_id=self.name,
            namespace=settings.namespace,
            host=socket.gethostname(),
            pid=os.getpid(),
            uptime_seconds=self._steering.uptime_seconds,
            concurrency=0,
            in_flight=0,
            queues=[],
            memory_bytes=resident_bytes(os.getpid(), is_alone=True),
            load=os.getloadavg()[0],
            counters={"fired": self._beat.fired},
            extras={
                "kind": SCHEDULER,
                "state": self._steering.state,
                "isLeader": self._beat.is_leader,
                "beatSeconds": HEARTBEAT_SECONDS,
                COMMANDS_EXTRA: sorted(COMMANDS),
                SIGNED_EXTRA: bool(settings.control_keys),
                **reached_by,
            },
        )
        store.heartbeats.beat(heartbeat, ttl_seconds=HEARTBEAT_SECONDS * 3)
