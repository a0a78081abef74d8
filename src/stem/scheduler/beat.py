"""Enqueue what is due: wait, decide, write. Any number of schedulers may run; one of them leads."""

import logging
import os
import random
import socket
import time
from datetime import UTC, datetime, timedelta
from threading import Event, Thread
from typing import TYPE_CHECKING

import msgspec

from stem import signals
from stem.client.schedules.check import calendar_of
from stem.contracts.schedules import Scheduled, ScheduleRun
from stem.core.envelope import Push
from stem.core.errors import InvalidTask, NoLiveWorkers, StemError, StoreRefused, StoreUnavailable
from stem.core.lifecycle import State
from stem.runtime.backoff import Backoff
from stem.runtime.keys import Keyring
from stem.scheduler.decide import Decision, decide, fired, upcoming
from stem.scheduler.entries import EntryWriter, pushes_of, task_id_of

if TYPE_CHECKING:
    from stem.client.app import Stem

log = logging.getLogger("stem.beat")

LEADER_LOCK = "scheduler.leader"
LEADER_SECONDS = 6.0  # a leader that is frozen or gone is replaced after this
ROUND_SECONDS = 2.0  # the leader renews its lock this often
OVERDUE_SECONDS = 1.0  # what is due for longer, any scheduler fires: the leader may be gone
DUE_AT_ONCE = 500
MOST_SET_BACK = timedelta(seconds=5)


class Beat:
    """A thread that fires the entries of the app's store.

    Leadership only saves work: two that fire the same entry write the same revision, and one of them is refused. So nobody
    waits for the lease of a leader that has died.
    """

    def __init__(self, app: "Stem", name: str) -> None:
        self._app = app
        self._owner = f"{name} {socket.gethostname()} {os.getpid()} {os.urandom(4).hex()}"
        self._backoff = Backoff("scheduling")
        self._keyring = Keyring.parse(app.settings.control_keys)
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="beat", daemon=True)
        self._seen_at: datetime | None = None  # by the store's clock; None: not since it leads
        self.is_leader = False
        self.fired = 0
        self.drift_seconds = 0.0  # of the latest run: how late it was enqueued
        self.ticked_at: float | None = None  # when it last looked for what is due, and the store answered

    @property
    def is_failing(self) -> bool:
        """Whether the store failed the last round."""
        return self._backoff.is_failing

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Nothing is enqueued once this has returned. Give up the lead, so that another scheduler need not wait for it."""
        self._stopped.set()
        self._thread.join(timeout=ROUND_SECONDS + 8)
        if self.is_leader:
            self._step_down()

    def tick(self) -> int:
        """Fire what is due now if this scheduler leads, else what is overdue; returns how many tasks were enqueued."""
        self._lead()
        if self.is_leader:
            self._watch_clock()
        before = self.fired
        for scheduled in self._due():
            if self._stopped.is_set():
                break
            self._fire(scheduled)
        return self.fired - before

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.tick()
                self.ticked_at = time.monotonic()
                self._backoff.succeeded()
                self._app.store.schedules.wait(timeout_seconds=ROUND_SECONDS)
                if not self.is_leader:
                    self._stopped.wait(OVERDUE_SECONDS)  # a follower is woken by every entry that is due
            except Exception as error:  # noqa: BLE001 - without this thread nothing would be scheduled any more
                self.is_leader = False  # an error while taking the lead is not having it
                if not self._backoff.is_failing:
                    self._log_failure(error)
                self._stopped.wait(self._backoff.failed())

    def _lead(self) -> None:
        is_leader = (
            self._app.store.locks.acquire(LEADER_LOCK, owner=self._owner, ttl_seconds=LEADER_SECONDS) is not None
        )
        if is_leader != self.is_leader:
            log.info("beat.promoted" if is_leader else "beat.demoted: another scheduler leads")
            self._seen_at = None
        self.is_leader = is_leader

    def _due(self) -> list[Scheduled]:
        found = self._app.store.schedules.due(limit=DUE_AT_ONCE)
        if self.is_leader or not found:
            return found
        horizon = self._now() - timedelta(seconds=OVERDUE_SECONDS)
        overdue = [each for each in found if each.state.due_at is not None and each.state.due_at < horizon]
        random.shuffle(overdue)  # beside a leader that is only slow, most writes then meet nobody else's
        return overdue

    def _step_down(self) -> None:
        try:
            self._app.store.locks.release(LEADER_LOCK, owner=self._owner)
        except StemError as error:
            log.warning("store.disconnected while giving up the lead: %s", error)

    def _fire(self, scheduled: Scheduled) -> None:
        """Fire one entry. One that cannot be fired, whatever is wrong with it, does not keep the others from being fired."""
        try:
            self._writer.check_seal(scheduled.entry)
            self._write(scheduled, self._decision(scheduled))
        except (StoreUnavailable, StoreRefused):
            raise  # the store's fault, not the entry's
        except Exception as error:  # noqa: BLE001 - anybody may have written the entry
            log.error("schedule.failed id=%s: %s", scheduled.entry.id, error)
            self._put_off(scheduled, str(error) or type(error).__name__)

    def _decision(self, scheduled: Scheduled) -> Decision:
        entry, state = scheduled.entry, scheduled.state
        return decide(
            entry,
            state,
            calendar_of(entry),
            now=self._now(),
            last_state=self._last_state(scheduled),
            fraction=random.random(),  # noqa: S311 - no secret
        )

    def _write(self, scheduled: Scheduled, decision: Decision) -> None:
        now = self._now()
        if decision.cancels is not None:
            self._cancel(scheduled.entry.id, decision.cancels)
        pushes: list[Push] = []
        runs: list[ScheduleRun] = []
        for instant in decision.instants:
            task_id = task_id_of(self._app.settings.namespace, scheduled.entry.id, instant)
            try:
                made = pushes_of(self._app, decision.entry, instant, task_id=task_id)
                pushes += made
                runs.append(ScheduleRun(instant, now, made[0].envelope.id, self._doubt(scheduled.entry.task)))
            except (InvalidTask, NoLiveWorkers) as error:  # the task's signature has changed, say
                log.error("schedule.refused id=%s instant=%s: %s", scheduled.entry.id, instant.isoformat(), error)
                runs.append(ScheduleRun(instant, now, None, str(error)))
        state = fired(decision.state, tuple(runs), now)
        is_changed = decision.entry is not scheduled.entry
        entry = self._writer.sealed(decision.entry) if is_changed else scheduled.entry
        written = self._app.store.schedules.write(entry, state, revision=scheduled.revision, pushes=pushes)
        if written is None:
            log.debug("schedule.taken id=%s: another scheduler or an edit was first", scheduled.entry.id)
            return
        self.fired += len(pushes)
        for run in runs:
            if run.task_id is not None:
                self.drift_seconds = max(0.0, (now - run.instant).total_seconds())
                log.info(
                    "schedule.fired id=%s instant=%s task=%s", scheduled.entry.id, run.instant.isoformat(), run.task_id
                )
                fact = signals.ScheduleFired(scheduled.entry.id, scheduled.entry.task, run.instant, run.task_id)
                signals.schedule_fired.send(fact)

    def _doubt(self, task: str) -> str:
        """A task whose code is gone is enqueued all the same, for the dead letters; its entry shows why."""
        tasks = self._app.tasks
        return f"the app has no task {task}" if tasks and task not in tasks else ""

    def _cancel(self, entry_id: str, task_id: str) -> None:
        """Stop the run before. The new one is due whether that succeeds or not."""
        try:
            self._app.handle(task_id).revoke(terminate=True, reason=f"schedule {entry_id} runs again")
        except StoreUnavailable:
            raise
        except StemError as error:
            log.warning("schedule.cancel_failed id=%s task=%s: %s", entry_id, task_id, error)

    def _put_off(self, scheduled: Scheduled, reason: str) -> None:
        """An entry that cannot be fired would be due for ever: it has no next instant until somebody writes it again."""
        now = self._now()
        state = fired(scheduled.state, (ScheduleRun(now, now, None, reason[:500]),), now)
        state = msgspec.structs.replace(state, instant=None, due_at=None)
        self._app.store.schedules.write(scheduled.entry, state, revision=scheduled.revision)

    def _watch_clock(self) -> None:
        """After the store's clock was set back, entries that ran in what is now the future wait for that: count them anew.
        Their tasks have the same ids as before, so none runs twice."""
        now = self._now()
        if self._seen_at is None or now < self._seen_at - MOST_SET_BACK:
            for each in self._app.store.schedules.all():
                last = each.state.last_run_at
                if last is not None and last > now + MOST_SET_BACK:
                    fraction = random.random()  # noqa: S311 - no secret
                    state = upcoming(each.entry, calendar_of(each.entry), now, fraction, each.state)
                    self._app.store.schedules.write(each.entry, state, revision=each.revision)
                    log.warning("schedule.realigned id=%s: the store's clock was set back", each.entry.id)
        self._seen_at = now

    def _last_state(self, scheduled: Scheduled) -> State | None:
        """The state of the entry's last task, if a decision depends on it."""
        entry, task_id = scheduled.entry, scheduled.state.last_task_id
        if task_id is None or (entry.overlap == "allow" and entry.pause_after_failures is None):
            return None
        record = self._app.store.results.get([task_id]).get(task_id)
        return None if record is None else record.state

    @property
    def _writer(self) -> EntryWriter:
        return EntryWriter(self._app.store, self._keyring)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._app.store.upkeep.now(), UTC)

    def _log_failure(self, error: Exception) -> None:
        if isinstance(error, StemError):
            log.warning("store.disconnected while scheduling: %s", error)
        else:
            log.error("beat.failed: %s", type(error).__name__, exc_info=error)
