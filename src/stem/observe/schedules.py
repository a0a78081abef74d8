"""Schedules: in words, with their next runs and what became of the last ones."""

from datetime import datetime, timedelta

import msgspec

from stem.calendar.parse import parse
from stem.calendar.words import in_words
from stem.contracts.schedules import Scheduled, ScheduleRun
from stem.contracts.store import Store
from stem.core.errors import InvalidSchedule
from stem.core.lifecycle import State
from stem.core.record import moment

NEXT_RUNS = 3


class PastRun(msgspec.Struct, frozen=True):
    """`state` is that of its task; None if nothing was enqueued or its record is gone."""

    run: ScheduleRun
    state: State | None


class ScheduleView(msgspec.Struct, frozen=True):
    """`problem` says why the expression cannot be read, where it cannot."""

    stored: Scheduled
    words: str
    problem: str
    next_runs: list[datetime]
    past: list[PastRun]

    @property
    def id(self) -> str:
        return self.stored.entry.id

    @property
    def status(self) -> str:
        if not self.stored.entry.is_enabled:
            return "disabled"
        return "on" if self.stored.state.instant is not None else "over"


class ScheduleList(msgspec.Struct, frozen=True):
    """Entries that can be read, and the ids of those that cannot."""

    views: list[ScheduleView]
    broken: list[str]


def schedules(store: Store) -> ScheduleList:
    """Return all entries, by id."""
    now = moment(store.upkeep.now())
    entries = store.schedules.all()
    ids = [run.task_id for found in entries for run in found.state.history if run.task_id is not None]
    states = {task_id: record.state for task_id, record in store.results.get(ids).items()} if ids else {}
    return ScheduleList([_view(found, states, now) for found in entries], store.schedules.broken())


def _view(found: Scheduled, states: dict[str, State], now: datetime) -> ScheduleView:
    past = [PastRun(run, states.get(run.task_id or "")) for run in reversed(found.state.history)]
    try:
        words, upcoming, problem = *_upcoming(found, now), ""
    except InvalidSchedule as error:
        words, upcoming, problem = found.entry.spec, [], str(error)
    return ScheduleView(found, words, problem, upcoming, past)


def _upcoming(found: Scheduled, now: datetime) -> tuple[str, list[datetime]]:
    """Raises InvalidSchedule."""
    entry, first = found.entry, found.state.instant
    calendar = parse(entry.spec, entry.time_zone, latitude=entry.latitude, longitude=entry.longitude)
    runs: list[datetime] = []
    if entry.is_enabled and first is not None:
        instant: datetime | None = max(first, now - timedelta(days=1))
        while instant is not None and len(runs) < NEXT_RUNS and (entry.ends_at is None or instant <= entry.ends_at):
            runs.append(instant)
            instant = calendar.next_after(instant)
    return in_words(calendar), runs
