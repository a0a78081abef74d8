"""The services of a running worker: started in order, stopped in reverse, and what passes between them."""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any

import msgspec

from stem.backends import RevokeStore, connect_revokes, placed
from stem.client.app import Stem
from stem.client.link import open_store
from stem.control.caller import SIGNED_EXTRA
from stem.control.listener import Listener
from stem.control.responder import Responder
from stem.control.sealing import Trust
from stem.control.ways import ears
from stem.core.delivery import Delivery, Ending, Report
from stem.core.errors import StemError
from stem.core.lifecycle import EventKind
from stem.runtime import metrics
from stem.runtime.keys import Keyring
from stem.runtime.service import Service, Ticker
from stem.worker import misplaced, wire
from stem.worker.autoscaler import Autoscaler
from stem.worker.brood import Brood, OpenLane
from stem.worker.clerk import Clerk
from stem.worker.fetcher import Fetcher
from stem.worker.gate import Gate
from stem.worker.guard import Limits
from stem.worker.held import Held
from stem.worker.herald import Herald
from stem.worker.keeper import Keeper
from stem.worker.manifest import Manifest
from stem.worker.marks import FOLLOW_SECONDS, Marks
from stem.worker.measures import measures
from stem.worker.naming import free_name
from stem.worker.nursery import Child, Nursery
from stem.worker.once import NO_ROOM, Once
from stem.worker.pool import Pool
from stem.worker.scribe import Scribe
from stem.worker.settings import Mode, WorkerSettings
from stem.worker.settler import Settler
from stem.worker.steering import Steering
from stem.worker.task_log import SuccessLog
from stem.worker.turns import AsOne, InTurn

log = logging.getLogger("stem.worker")

PRUNE_SECONDS = 60.0
QUIET_SECONDS = 10.0  # how long a worker that stops tries to write what it has left
LISTEN_SECONDS = 20.0  # for commands, which wake the listener; closing the store does, too
SHARED_LISTEN_SECONDS = 0.2


class Parts:
    """Listens to the pool, and tells whoever is concerned."""

    def __init__(
        self,
        settings: WorkerSettings,
        told: Manifest,
        make_nursery: Callable[[], Nursery],
        fail: Callable[[str], None],
        shut_down: Callable[[Mode], None],
        app: Stem | None,
    ) -> None:
        """With an app its tasks run in this very process; without one, in isolates."""
        self._fail = fail
        self._store_settings = placed(told.settings)
        self.store = app.store if app is not None else open_store(self._store_settings)
        settings = msgspec.structs.replace(settings, name=free_name(settings.name, self.store.heartbeats))
        self.settings = settings
        self._owns_store = app is None
        self._shares_store = app is not None and not self.store.capabilities.crosses_processes
        self.queues = list(settings.queues) or told.queues
        self.paused: set[str] = set()
        self.is_draining = False
        self._successes = SuccessLog(is_on=settings.log_tasks)
        kept_seconds = self._store_settings.retention.results_seconds
        self._once = Once(self.store, settings.name, kept_seconds=kept_seconds, room=self._at_once)
        self.settler = Settler(self._once, settings.name, self._settled, self._successes)
        self.pool = Pool(
            partial(
                Brood,
                make_nursery=make_nursery,
                concurrency=settings.concurrency,
                async_concurrency=settings.async_concurrency,
                lane_concurrency=settings.concurrency if app is not None else settings.lane_concurrency,
                max_tasks=settings.max_tasks_per_isolate,
                max_memory_bytes=settings.max_memory_per_isolate,
                open_lane=_opener(app, settings.name),
            ),
            self,
            Limits(settings.soft_limit, settings.hard_limit, settings.grace_seconds, settings.max_deaths),
        )
        self.facts = {name: task for task in told.tasks for name in (task.name, *task.aliases)}
        self._control_keys = Keyring.parse(self._store_settings.control_keys)
        trust = Trust(self._control_keys, self.store.namespace)
        self.marks = Marks(self._open_revokes(), self.queues, settings.name, trust)
        self.gate = Gate(
            self.store.limiter, self.facts, lease_seconds=settings.lease_seconds, fails_open=settings.limiter_fails_open
        )
        self._keeper = Keeper(self.store, self.pool, settings.lease_seconds)
        self._scribe = Scribe(self.store.broker, settings.name)
        self._clerk = Clerk(self.store.broker)
        self.autoscaler = Autoscaler(
            self.store, self.pool, self.queues, settings.name, settings.autoscale, lambda: self.fetcher.ahead
        )
        self.steering = Steering(self, shut_down)
        self.responder = self._make_responder()
        self._ears = self._make_ears()
        self._herald = Herald(
            self.store,
            self.pool,
            settings,
            self.queues,
            self.settler.counters,
            lambda: self.steering.state,
            {
                **self._ears.reached_by(self._store_settings.control_namespace),
                SIGNED_EXTRA: bool(self._control_keys),
            },
            told.tasks,
        )
        self._tickers = [
            Ticker("lease-renewer", lambda: self._keeper.pause_seconds, self._keeper.tick),
            Ticker("heartbeat", settings.heartbeat_seconds, self._herald.beat),
            Ticker("reclaimer", settings.reclaim_seconds, self._reclaim),
            Ticker("autoscaler", self.autoscaler.seconds, self.autoscaler.tick),
            Ticker("revoke-follower", FOLLOW_SECONDS, self._follow_marks),
            Ticker("pruner", PRUNE_SECONDS, self._prune),
            Ticker("success-log", 1.0, self._successes.tick),
        ]
        self._rebuilt_at: float | None = None
        self._measures = measures(self)
        self.fetcher = self._make_fetcher()

    def start(self, nursery: Nursery | None) -> None:
        self._tell_signing()
        self.marks.hydrate()
        self.paused.update(self.marks.paused)
        for service in (self.settler, self._scribe, self._clerk):
            service.start()
        self.pool.start(nursery)
        self.fetcher.start()
        self._ears.start()
        for ticker in self._tickers:
            ticker.start()
        metrics.publish(self._measures)
        self._note(EventKind.WORKER_STARTED, {"queues": self.queues, "concurrency": self.settings.concurrency})

    def stop(self, mode: Mode, wanted: Callable[[], Mode]) -> None:
        """Stop the fetcher before the pool: a lease claimed now would wait for a slot that never comes."""
        self.is_draining = True
        self.fetcher.stop()
        self.pool.drain("the worker is shutting down")
        self._let_end(mode, wanted)
        self.pool.cut_off("the worker was shut down")
        is_written = self.pool.wait_until_quiet(QUIET_SECONDS)
        for ticker in self._tickers:
            ticker.begin_no_more()
        services: list[Service] = [*self._tickers, self._clerk, self._scribe]
        for service in services:
            service.stop()
        # It has had its time; what it could not write comes back when the leases run out.
        self.settler.stop(timeout_seconds=QUIET_SECONDS if is_written else 0.0)
        self._successes.tick()  # what the last second summed up
        self.pool.stop()
        metrics.withdraw(self._measures)
        self._ears.hush()  # operators may ask to the last
        if is_written:  # else the store is away, and will forget us by itself
            self._note(EventKind.WORKER_STOPPED, {"mode": mode, "counters": dict(self.settler.counters)})
            with suppress(StemError):
                self._herald.leave()
        if self._owns_store:
            self.store.upkeep.close()
        self.marks.close()
        self._ears.stop()

    def _let_end(self, mode: Mode, wanted: Callable[[], Mode]) -> None:
        """Warm waits for what runs, soft tells it to stop and waits for its grace, hard waits for nothing."""
        settings, began_at, told_at = self.settings, time.monotonic(), 0.0
        while mode != "hard" and not self.pool.wait_until_quiet(0.1):
            mode, now = wanted(), time.monotonic()
            if mode == "warm" and settings.warm_seconds is not None and now - began_at > settings.warm_seconds:
                mode = "soft"
            if mode == "soft" and not told_at:
                told_at = now
                self.pool.stop_running("the worker is shutting down")
            if told_at and now - told_at > self.pool.grace_seconds + 1.0:
                return

    def watch(self) -> None:
        """A fetcher that finishes no poll gets a new connection once; after that the worker gives up. So it does where
        nothing would be run or settled any more."""
        for name, part in (("pool", self.pool), ("settler", self.settler)):
            if not part.is_alive:
                self._fail(f"The thread of the {name} has ended, its log says why; restart me.")
                return
        stall, now = self.settings.stall_seconds, time.monotonic()
        if now - max(self.fetcher.polled_at, self._rebuilt_at or 0.0) < stall:
            if self.fetcher.has_polled and now - self.fetcher.polled_at < stall:
                self._rebuilt_at = None
        elif self._rebuilt_at is None:
            log.error("fetcher.stalled for %g s; rebuilding its connection", stall)
            self._rebuilt_at = now
            # In a thread: connecting may hang as the poll does.
            Thread(target=self._rebuild, name="fetcher-midwife", daemon=True).start()
        else:
            self._fail(f"No poll of the store was finished for {stall:g} s, also over a new connection; restart me.")

    def _rebuild(self) -> None:
        try:
            fetcher = self._make_fetcher()
        except StemError as error:
            log.error("fetcher.unconnected: %s", error)
            return
        old, self.fetcher = self.fetcher, fetcher
        self.fetcher.start()
        old.stop()

    # What the pool tells

    def ended(self, endings: list[tuple[Held, Ending]]) -> None:
        self.settler.add(endings)

    def begun(self, helds: list[Held]) -> None:
        self._scribe.begun(helds)

    def reported(self, reports: list[tuple[Held, Report]]) -> None:
        self._scribe.report(reports)

    def asked(self, child: Child, word: wire.AskBody | wire.AskPush, body: bytes) -> None:
        self._clerk.asked(child, word, body)

    def extended(self, held: Held, seconds: float) -> None:
        self._keeper.extend(held, seconds)

    def has_room(self) -> None:
        self.fetcher.has_room()

    def is_stuck(self) -> None:
        self.fetcher.hold_nothing()

    def recycled(self, pid: int, reason: str) -> None:
        # Not here: the pool does not wait for a store.
        Thread(target=self._note, args=(EventKind.WORKER_RECYCLED, {"isolate": pid, "reason": reason})).start()

    def failed(self, sentence: str) -> None:
        self._fail(sentence)

    # What operators ask

    def pause(self, queues: Sequence[str]) -> list[str]:
        self.paused.update(queues)
        self.pool.pause(queues)
        self.fetcher.let_go()
        self._note(EventKind.WORKER_PAUSED, {"queues": list(queues)})
        return sorted(self.paused)

    def resume(self, queues: Sequence[str]) -> list[str]:
        self.paused.difference_update(queues)
        self.pool.resume(queues)
        self._note(EventKind.WORKER_RESUMED, {"queues": list(queues)})
        return sorted(self.paused)

    def _follow_marks(self) -> None:
        """What a command should have brought, and did not."""
        before = self.marks.paused
        if not self.marks.follow():
            return
        if paused := self.marks.paused - before:
            self.pause(sorted(paused))
        if resumed := before - self.marks.paused:
            self.resume(sorted(resumed))
        revoked = self.marks.reasons([held.lease.id for held in list(self.pool.held.values())])
        for record in revoked.values():
            self.steering.revoke([record], record.terminate, record.signal or "SIGTERM")

    def _prune(self) -> None:
        self.responder.flush()
        self.marks.prune()
        self.store.upkeep.prune()

    def _open_revokes(self) -> RevokeStore:
        settings, store = self._store_settings, self.store
        if settings.revokes_place != settings.broker_url:
            return connect_revokes(settings)
        return RevokeStore(url=store.url, revokes=store.revokes, now=store.upkeep.now, close=_nothing)

    def _tell_signing(self) -> None:
        settings, keys = self._store_settings, self._control_keys
        log.info(
            "worker.signing tasks=%s control=%s", "on" if settings.signing_keys else "off", "on" if keys else "off"
        )
        if keys and not settings.control.keys:
            log.info(
                "signing.shared: STEM_CONTROL_KEYS is not set, so the signing keys, which tasks hold, sign commands"
            )
        if keys and not keys.can_sign:
            log.warning(
                "signing.replies-unsigned: no control key can sign, so askers with keys take no reply from here"
            )

    def _note(self, kind: EventKind, data: dict[str, Any]) -> None:
        try:
            self.store.events.note(kind, worker=self.settings.name, data=data)
        except StemError as error:
            log.warning("%s not noted: %s", kind.value, error)

    def _make_responder(self) -> Responder:
        control = self._store_settings.control
        return Responder(
            self.steering,
            namespace=self._store_settings.control_namespace,
            clock=self.store.upkeep.now,
            keyring=self._control_keys,
            commands_per_second=control.commands_per_second,
        )

    def _make_ears(self) -> Listener:
        transports = ears(self._store_settings, self.store.mail, self.settings.name)
        seconds = LISTEN_SECONDS if self._owns_store else SHARED_LISTEN_SECONDS
        return Listener(transports, self.responder, listen_seconds=seconds)

    def _make_fetcher(self) -> Fetcher:
        store = self.store if self._shares_store else open_store(self._store_settings)
        settings = self.settings
        return Fetcher(
            store,
            self.pool,
            (InTurn if self._store_settings.fair_share else AsOne)(store.broker, self.queues, self.paused),
            self._offer,
            prefetch=settings.prefetch,
            lease_seconds=settings.lease_seconds,
            stall_seconds=settings.stall_seconds,
            owns_store=not self._shares_store,
        )

    def _offer(self, deliveries: list[Delivery]) -> None:
        parked: list[tuple[Held, Ending]] = []
        if self._store_settings.signing_keys:
            deliveries, parked = misplaced.sort(deliveries, self.queues)
        deliveries, revoked = self.marks.sort(deliveries)
        helds, throttled = self.gate.sort(deliveries)
        helds, begun = self._once.sort(helds)
        if any(ending.settlement is NO_ROOM for _, ending in begun):
            self.fetcher.hold_nothing()
        if helds:
            self.pool.offer(helds)
            self._keeper.keep_short(helds)
        if revoked or throttled or parked or begun:
            self.settler.add(revoked + throttled + parked + begun)

    def _at_once(self, held: Held) -> int:
        """How many like this one can run here at the same moment."""
        if held.is_inline:
            return self.settings.lane_concurrency
        return self.pool.concurrency * (self.settings.async_concurrency if held.is_async else 1)

    def _settled(self, helds: Sequence[Held]) -> None:
        self.pool.settled(helds)
        self.gate.free(list(helds))

    def _reclaim(self) -> None:
        # First what is ours: after the machine has slept, leases of tasks that go on have run out, too.
        self._keeper.tick()
        grace_seconds, max_deaths = self.settings.reclaim_grace_seconds, self.settings.max_deaths
        reclaimed = self.store.broker.reclaim(grace_seconds=grace_seconds, max_deaths=max_deaths)
        if reclaimed.returned or reclaimed.dead:
            log.warning("leases.reclaimed returned=%d dead=%d", len(reclaimed.returned), len(reclaimed.dead))


def _nothing() -> None:
    """The worker's own store is closed with the worker."""


def _opener(app: Stem | None, worker: str) -> OpenLane | None:
    if app is None:
        return None
    from stem.worker.lane import lane_opener  # with asyncio and all that tasks need; a supervisor runs none

    return lane_opener(app, worker)
