"""Build the services of a worker and connect them; `lifecycle` starts and stops them."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from stem.client.app import Stem
from stem.client.stores import RevokeStore, connect_revokes, open_store, with_absolute_paths
from stem.control.sealing import Trust
from stem.core.decisions.routing import queue_of_worker
from stem.core.errors import StemError
from stem.core.lifecycle import EventKind
from stem.runtime.keys import Keyring
from stem.telemetry.metrics import Metrics
from stem.telemetry.timed_store import timed_store
from stem.worker.admission.admission import Admission
from stem.worker.admission.at_most_once import AtMostOnce
from stem.worker.admission.revoke_follower import RevokeFollower
from stem.worker.admission.throttle import Throttle
from stem.worker.fork.client import ForkServerClient
from stem.worker.fork.manifest import Manifest
from stem.worker.naming import claim_name
from stem.worker.pool.in_flight import InFlightTask, InFlightTasks
from stem.worker.pool.isolates import Isolates, StartInlineThreads
from stem.worker.pool.pool import Pool
from stem.worker.pool.watchdog import Limits
from stem.worker.pool_events import PoolEvents
from stem.worker.services.accounting import Accounting
from stem.worker.services.autoscaler import Autoscaler
from stem.worker.services.claim_order import FairShareOrder, PriorityOrder
from stem.worker.services.fetcher import Fetcher
from stem.worker.services.isolate_requests import IsolateRequests
from stem.worker.services.lease_renewer import LeaseRenewer
from stem.worker.services.metrics import TaskMetrics
from stem.worker.services.minute_counts import MinuteCounts
from stem.worker.services.progress_reporter import ProgressReporter
from stem.worker.services.settler import Settler
from stem.worker.services.task_log import SuccessLog
from stem.worker.services.task_output import TaskOutputWriter
from stem.worker.settings import WorkerSettings

log = logging.getLogger("stem.worker")


class Services:
    """Everything a worker consists of, except how operators reach it."""

    def __init__(
        self,
        settings: WorkerSettings,
        manifest: Manifest,
        make_client: Callable[[], ForkServerClient],
        fail: Callable[[str], None],
        app: Stem | None,
    ) -> None:
        """With an app its tasks run in threads of this process; without one, in isolates."""
        self.store_settings = with_absolute_paths(manifest.settings)
        self.owns_store = app is None
        store = app.store if app is not None else open_store(self.store_settings)
        self.metrics = Metrics(store.namespace, settings.name)
        self.store = timed_store(store, self.metrics)
        self._shares_store = app is not None and not self.store.capabilities.crosses_processes
        self.name_claim = claim_name(settings.name, self.store.heartbeats, self.store.locks)
        self.settings = settings = msgspec.structs.replace(settings, name=self.name_claim.name)
        self.queues = list(settings.queues) or manifest.queues
        self.metrics.worker = settings.name
        self.task_metrics = TaskMetrics(self.metrics, self.queues)
        self.own_queue = queue_of_worker(settings.name)  # of broadcasts; operators and autoscaling do not see it
        claimed = [*self.queues, self.own_queue]
        self.paused: set[str] = set()
        self.facts = {name: task for task in manifest.tasks for name in (task.name, *task.aliases)}
        self.control_keys = Keyring.parse(self.store_settings.control_keys)
        self.is_draining = False

        self.in_flight = InFlightTasks()
        self.pool = self._make_pool(make_client, app)
        self.throttle = Throttle(
            self.store.limiter, self.facts, lease_seconds=settings.lease_seconds, fails_open=settings.limiter_fails_open
        )
        self.at_most_once = AtMostOnce(
            self.store,
            settings.name,
            kept_seconds=self.store_settings.retention.results_seconds,
            capacity=self._capacity_for,
        )
        self.success_log = SuccessLog(is_on=settings.log_tasks)
        self.minute_counts = MinuteCounts(self.store, settings.name, self.queues) if settings.minute_counts else None
        self.task_output = TaskOutputWriter(self.store.task_logs) if settings.task_logs else None
        minutes = [] if self.minute_counts is None else [self.minute_counts.add]
        self.accounting = Accounting(self.success_log.add, [self.task_metrics.ended, *minutes])
        self.settler = Settler(self.at_most_once, settings.name, self._release, self.accounting.add)
        self.lease_renewer = LeaseRenewer(self.store, self.pool, self.in_flight, settings.lease_seconds)
        self.progress_reporter = ProgressReporter(self.store.broker, settings.name, self.task_metrics)
        self.isolate_requests = IsolateRequests(self.store)
        self.revokes = RevokeFollower(
            self._open_revokes(), claimed, settings.name, Trust(self.control_keys, self.store.namespace)
        )
        self.admission = Admission(
            queues=claimed,
            signs_tasks=bool(self.store_settings.signing_keys),
            revokes=self.revokes,
            throttle=self.throttle,
            at_most_once=self.at_most_once,
            in_flight=self.in_flight,
            pool=self.pool,
            lease_renewer=self.lease_renewer,
            settler=self.settler,
            worker=settings.name,
        )
        self.fetcher = self.make_fetcher()
        self.autoscaler = Autoscaler(
            self.store, self.pool, self.queues, settings.name, settings.autoscale, lambda: self.fetcher.current_prefetch
        )
        self.pool_events = PoolEvents(
            settler=self.settler,
            progress_reporter=self.progress_reporter,
            isolate_requests=self.isolate_requests,
            lease_renewer=self.lease_renewer,
            fetcher=lambda: self.fetcher,
            record_event=self.record_event,
            fail=fail,
            worker=settings.name,
            task_output=self.task_output,
        )

    def make_fetcher(self) -> Fetcher:
        """A fetcher with a connection of its own, where the store allows one."""
        settings = self.settings
        store = self.store if self._shares_store else timed_store(open_store(self.store_settings), self.metrics)
        order = FairShareOrder if self.store_settings.fair_share else PriorityOrder
        return Fetcher(
            store,
            self.pool,
            self.in_flight,
            order(store.broker, self.queues, self.own_queue, self.paused),
            self.admission.admit,
            prefetch=settings.prefetch,
            lease_seconds=settings.lease_seconds,
            stall_seconds=settings.stall_seconds,
            owns_store=not self._shares_store,
        )

    def record_event(self, kind: EventKind, data: dict[str, Any]) -> None:
        """Write an event of the worker itself; one that cannot be written is logged."""
        try:
            self.store.events.note(kind, worker=self.settings.name, data=data)
        except StemError as error:
            log.warning("event.unwritten kind=%s: %s", kind.value, error)

    def _make_pool(self, make_client: Callable[[], ForkServerClient], app: Stem | None) -> Pool:
        settings = self.settings
        make_isolates = partial(
            Isolates,
            make_client=make_client,
            concurrency=settings.concurrency,
            async_concurrency=settings.async_concurrency,
            inline_concurrency=settings.concurrency if app is not None else settings.lane_concurrency,
            max_tasks=settings.max_tasks_per_isolate,
            max_memory_bytes=settings.max_memory_per_isolate,
            start_inline_threads=_inline_starter(app, settings.name),
        )
        limits = Limits(settings.soft_limit, settings.hard_limit, settings.grace_seconds, settings.max_deaths)
        return Pool(make_isolates, self.in_flight, limits)

    def _open_revokes(self) -> RevokeStore:
        settings, store = self.store_settings, self.store
        if settings.revokes_place != settings.broker_url:
            return connect_revokes(settings)
        return RevokeStore(url=store.url, revokes=store.revokes, now=store.upkeep.now, close=_nothing)

    def _capacity_for(self, task: InFlightTask) -> int:
        """How many tasks of this kind can run here at once."""
        if task.is_inline:
            return self.settings.lane_concurrency
        return self.pool.concurrency * (self.settings.async_concurrency if task.is_async else 1)

    def _release(self, tasks: Sequence[InFlightTask]) -> None:
        """The store has their endings: they are no longer in flight and free their places in the limits."""
        self.in_flight.remove(tasks)
        self.throttle.release(tasks)


def _nothing() -> None:
    """The worker's own store is closed with the worker."""


def _inline_starter(app: Stem | None, worker: str) -> StartInlineThreads | None:
    if app is None:
        return None
    # Imports asyncio and all that tasks need; a supervisor of isolates runs none.
    from stem.worker.isolate.inline_threads import inline_starter

    return inline_starter(app, worker)
