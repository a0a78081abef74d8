"""Start a worker's services in order, watch over them, and stop them in reverse."""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Thread

from stem import signals
from stem.client.app import Stem
from stem.control.caller import SIGNED_EXTRA
from stem.control.listener import ControlListener
from stem.control.responder import Responder
from stem.control.transport_factory import command_receivers
from stem.core.errors import StemError
from stem.core.lifecycle import EventKind
from stem.runtime.service import Service, Ticker
from stem.telemetry import instruments, otel_metrics, otlp
from stem.telemetry.health_server import HealthServer
from stem.telemetry.metrics import Numbers
from stem.worker.admission.revoke_follower import FOLLOW_SECONDS
from stem.worker.fork.client import ForkServerClient
from stem.worker.fork.manifest import Manifest
from stem.worker.services.absent_workers import cancel_expired
from stem.worker.services.heartbeat import HeartbeatSender
from stem.worker.services.metrics import depth_numbers
from stem.worker.services.minute_counts import TICK_SECONDS
from stem.worker.services.task_output import WRITE_SECONDS
from stem.worker.settings import Mode, WorkerSettings
from stem.worker.steering import Steering
from stem.worker.wiring import Services

log = logging.getLogger("stem.worker")

PRUNE_SECONDS = 60.0
PING_SECONDS = 5.0
SETTLE_SECONDS = 10.0  # how long a stopping worker tries to write the endings it has left
LISTEN_SECONDS = 20.0  # a command, or closing the store, ends the wait earlier
SHARED_LISTEN_SECONDS = 0.2  # closing the worker does not close the app's store


class RunningWorker:
    """The services of a started worker, and how operators reach it."""

    def __init__(
        self,
        settings: WorkerSettings,
        manifest: Manifest,
        make_client: Callable[[], ForkServerClient],
        fail: Callable[[str], None],
        shut_down: Callable[[Mode], None],
        app: Stem | None,
        health: HealthServer | None = None,
    ) -> None:
        """`health` answers probes already. If control is to listen on its address, it listens for both."""
        self._health = health
        self._signals: tuple[otlp.Signal, ...] = ("METRICS",) if app is None else ("METRICS", "TRACES")
        self._end_telemetry: Callable[[], None] = _nothing
        self.is_started = False
        self.watched_at: float | None = None  # by `watch`; None: nobody watches, as in an app that embeds the worker
        self._fail = fail
        self.services = services = Services(settings, manifest, make_client, fail, app)
        self.settings = settings = services.settings
        self.steering = Steering(services, shut_down)
        self._responder = self._make_responder()
        self.steering.command_counts = lambda: self._responder.counts
        self._control = self._make_control_listener()
        self.heartbeat = HeartbeatSender(
            services.store,
            services.pool,
            settings,
            services.queues,
            services.accounting.counters,
            lambda: self.steering.state,
            {
                **self._control.reached_by(services.store_settings.control_namespace),
                SIGNED_EXTRA: bool(services.control_keys),
            },
            manifest.tasks,
            lambda: services.autoscaler.config,
            is_fair=services.store_settings.fair_share,
        )
        renewer, autoscaler = services.lease_renewer, services.autoscaler
        self._tickers = [
            Ticker("lease-renewer", lambda: renewer.pause_seconds, renewer.tick),
            Ticker("heartbeat", settings.heartbeat_seconds, self._beat),
            Ticker("reclaimer", settings.reclaim_seconds, self._reclaim),
            Ticker("autoscaler", autoscaler.seconds, autoscaler.tick),
            Ticker("revoke-follower", FOLLOW_SECONDS, self.steering.follow_revokes),
            Ticker("pruner", PRUNE_SECONDS, self._prune),
            Ticker("success-log", 1.0, services.success_log.tick),
            Ticker(
                "fork-server-ping", min(PING_SECONDS, settings.stall_seconds / 6), services.pool.fork_server_ping.send
            ),
        ]
        if services.minute_counts is not None:
            self._tickers.append(
                Ticker("minute-counts", TICK_SECONDS, services.minute_counts.tick, starts_at_once=False)
            )
        if services.task_output is not None:
            self._tickers.append(Ticker("task-output", WRITE_SECONDS, services.task_output.tick))
        self._name_published = False  # by a heartbeat
        self._reconnected_at: float | None = None
        self._read_metrics()

    def start(self, client: ForkServerClient | None) -> None:
        """Return when tasks are being claimed."""
        services = self.services
        self._log_signing()
        services.revokes.load()
        services.paused.update(services.revokes.paused)
        for service in (services.accounting, services.settler, services.progress_reporter, services.isolate_requests):
            service.start()
        services.pool.start(client, services.pool_events)
        services.fetcher.start()
        self._control.start()
        for ticker in self._tickers:
            ticker.start()
        self._end_telemetry = otlp.set_up(*self._signals, service="stem-worker", instance=self.settings.name)
        otel_metrics.publish(services.metrics)
        data = {"queues": services.queues, "concurrency": self.settings.concurrency}
        services.record_event(EventKind.WORKER_STARTED, data)
        self.is_started = True
        signals.worker_ready.send(self._phase())

    def stop(self, mode: Mode, wanted: Callable[[], Mode]) -> None:
        """Stop the fetcher before the pool: a lease claimed now would wait for a slot that never comes."""
        services = self.services
        services.is_draining = True
        signals.worker_draining.send(self._phase(mode))
        services.fetcher.stop()
        services.pool.drain("the worker is shutting down")
        self._wait_for_tasks(mode, wanted)
        services.pool.cut_off("the worker was shut down")
        is_written = services.in_flight.wait_until_empty(SETTLE_SECONDS)
        for ticker in self._tickers:
            ticker.begin_no_more()
        stopping: list[Service] = [*self._tickers, services.isolate_requests, services.progress_reporter]
        for service in stopping:
            service.stop()
        # It has had its time; endings it could not write are repeated when their leases expire.
        services.settler.stop(timeout_seconds=SETTLE_SECONDS if is_written else 0.0)
        services.accounting.stop()
        services.success_log.tick()  # the summary of the last second
        if services.minute_counts is not None and is_written:
            with suppress(StemError):
                services.minute_counts.tick()
        services.pool.stop()
        if services.task_output is not None and is_written:
            services.task_output.tick()  # what tasks said at the very end
        self._end_telemetry()
        otel_metrics.withdraw(services.metrics)
        self._control.stop_receiving()  # operators may ask until now
        if is_written:  # else the store is away, and forgets this worker by itself
            data = {"mode": mode, "counters": dict(services.accounting.counters)}
            services.record_event(EventKind.WORKER_STOPPED, data)
            with suppress(StemError):
                self.heartbeat.leave()
        if services.owns_store:
            services.store.upkeep.close()
        services.revokes.close()
        self._control.stop()
        signals.worker_stopped.send(self._phase(mode))

    @property
    def is_connected(self) -> bool:
        """Whether the store answers, as far as is known."""
        services, failed_at = self.services, self.heartbeat.failed_at
        answered_at = max(services.fetcher.fetched_at or 0.0, self.heartbeat.beaten_at or 0.0)
        is_silent = failed_at is not None and failed_at > answered_at
        return not (services.fetcher.is_failing or services.settler.is_failing or is_silent)

    def watch(self) -> None:
        """Give a fetcher that finishes no poll a new connection, once; after that, or without pool or settler, give up."""
        services = self.services
        self.watched_at = time.monotonic()
        for name, part in (("pool", services.pool), ("settler", services.settler)):
            if not part.is_alive:
                self._fail(f"The thread of the {name} has ended, its log says why; restart me.")
                return
        stall, now, polled_at = self.settings.stall_seconds, time.monotonic(), services.fetcher.polled_at
        if now - max(polled_at, self._reconnected_at or 0.0) < stall:
            if services.fetcher.has_polled and now - polled_at < stall:
                self._reconnected_at = None
        elif self._reconnected_at is None:
            log.error("fetcher.stalled for %g s; rebuilding its connection", stall)
            self._reconnected_at = now
            # In a thread: connecting may hang as the poll does.
            Thread(target=self._replace_fetcher, name="fetcher-reconnect", daemon=True).start()
        else:
            self._fail(f"No poll of the store was finished for {stall:g} s, also over a new connection; restart me.")

    def _replace_fetcher(self) -> None:
        try:
            fetcher = self.services.make_fetcher()
        except StemError as error:
            log.error("fetcher.reconnect_failed: %s", error)
            return
        old, self.services.fetcher = self.services.fetcher, fetcher
        fetcher.start()
        old.stop()

    def _wait_for_tasks(self, mode: Mode, wanted: Callable[[], Mode]) -> None:
        """Warm waits for running tasks, soft asks them to stop and waits for the grace period, hard does not wait."""
        pool, limit, began_at, asked_at = self.services.pool, self.settings.warm_seconds, time.monotonic(), 0.0
        while mode != "hard" and not self.services.in_flight.wait_until_empty(0.1):
            mode, now = wanted(), time.monotonic()
            if mode == "warm" and limit is not None and now - began_at > limit:
                mode = "soft"
            if mode == "soft" and not asked_at:
                asked_at = now
                pool.stop_running("the worker is shutting down")
            if asked_at and now - asked_at > pool.grace_seconds + 1.0:
                return

    def _phase(self, mode: Mode | None = None) -> signals.WorkerPhase:
        return signals.WorkerPhase(self.settings.name, tuple(self.services.queues), mode)

    def _beat(self) -> None:
        self.heartbeat.beat()
        otel_metrics.follow_provider()
        if not self._name_published:
            self._name_published = True
            self.services.name_claim.release()

    def _reclaim(self) -> None:
        services, settings = self.services, self.settings
        # Our own leases first: after the machine has slept, those of tasks that still run have expired as well.
        services.lease_renewer.tick()
        grace_seconds = settings.reclaim_grace_seconds(services.store_settings.timeout_seconds)
        reclaimed = services.store.broker.reclaim(grace_seconds=grace_seconds, max_deaths=settings.max_deaths)
        if reclaimed.returned or reclaimed.dead:
            log.warning("leases.reclaimed returned=%d dead=%d", len(reclaimed.returned), len(reclaimed.dead))

    def _prune(self) -> None:
        self._responder.flush()
        self.services.revokes.prune()
        self.services.store.upkeep.prune()
        cancel_expired(self.services.store)

    def _make_responder(self) -> Responder:
        services, control = self.services, self.services.store_settings.control
        return Responder(
            self.steering,
            namespace=services.store_settings.control_namespace,
            clock=services.store.upkeep.now,
            keyring=services.control_keys,
            commands_per_second=control.commands_per_second,
        )

    def _make_control_listener(self) -> ControlListener:
        services = self.services
        health, http = self._health, services.store_settings.control.http
        probes = health.hand_over() if health is not None and health.address == http else None
        transports = command_receivers(services.store_settings, services.store.mail, self.settings.name, probes=probes)
        seconds = LISTEN_SECONDS if services.owns_store else SHARED_LISTEN_SECONDS
        return ControlListener(transports, self._responder, listen_seconds=seconds)

    def _read_metrics(self) -> None:
        services, pool, responder = self.services, self.services.pool, self._responder
        services.metrics.read |= {
            instruments.CONCURRENCY.name: lambda: {(): pool.concurrency},
            instruments.INFLIGHT.name: lambda: {(): len(pool.running)},
            instruments.RESERVED.name: lambda: {(): pool.waiting},
            instruments.REVOKED_KNOWN.name: lambda: {(): len(services.revokes.revoked)},
            instruments.ENDINGS.name: lambda: _by_outcome(services.accounting.counters),
            instruments.COMMANDS.name: lambda: _by_outcome(responder.counts),
            instruments.IGNORED_REVOKES.name: lambda: {("ignored",): services.revokes.ignored},
            instruments.DEPTH.name: lambda: depth_numbers(self.heartbeat.depths),
        }

    def _log_signing(self) -> None:
        settings, keys = self.services.store_settings, self.services.control_keys
        states = ("on" if settings.signing_keys else "off", "on" if keys else "off")
        log.info("worker.signing_configured tasks=%s control=%s", *states)
        if keys and not settings.control.keys:
            log.info(
                "signing.keys_shared: STEM_CONTROL_KEYS is not set, so the signing keys, which tasks hold, sign commands"
            )
        if keys and not keys.can_sign:
            log.warning(
                "signing.replies_unsigned: no control key can sign, so callers with keys accept no reply from here"
            )


def _nothing() -> None:
    """No telemetry was set up."""


def _by_outcome(counts: Mapping[str, int]) -> Numbers:
    return {(str(outcome),): count for outcome, count in dict(counts).items()}
