"""Decide what a due entry enqueues and when it is due next. Pure: no clock, no store, no logging."""

from datetime import datetime, timedelta

import msgspec

from stem.calendar.entry import Entry
from stem.calendar.jitter import jittered
from stem.calendar.misfire import missed
from stem.contracts.schedules import ScheduleEntry, ScheduleRun, ScheduleState
from stem.core.lifecycle import TERMINAL, State

LATE_SECONDS = 30.0  # an instant that is enqueued later than that was missed
BUFFER_LOOK_SECONDS = 1.0  # how often a buffered run looks whether the run before it has ended
HISTORY = 100


class Decision(msgspec.Struct, frozen=True):
    """The entry and state to write, the instants to enqueue, and the task to cancel before that."""

    entry: ScheduleEntry
    state: ScheduleState
    instants: tuple[datetime, ...] = ()
    cancels: str | None = None


def upcoming(
    entry: ScheduleEntry, calendar: Entry, after: datetime, fraction: float, state: ScheduleState
) -> ScheduleState:
    """Return the state with the first instant after this moment, within the entry's start, end and number of runs."""
    if entry.starts_at is not None:
        after = max(after, entry.starts_at - timedelta(microseconds=1))
    instant = calendar.next_after(after)
    is_complete = entry.max_runs is not None and state.run_count >= entry.max_runs
    if instant is None or is_complete or (entry.ends_at is not None and instant > entry.ends_at):
        return msgspec.structs.replace(state, instant=None, due_at=None)
    return msgspec.structs.replace(state, instant=instant, due_at=_jittered(entry, calendar, instant, fraction))


def decide(
    entry: ScheduleEntry,
    state: ScheduleState,
    calendar: Entry,
    *,
    now: datetime,
    last_state: State | None,
    fraction: float,
) -> Decision:
    """Decide about an entry that is due at `now`. `last_state` is that of the task it enqueued last, None if unknown."""
    state = _with_outcome(state, last_state)
    if entry.pause_after_failures is not None and state.failures_in_a_row >= entry.pause_after_failures:
        note = f"paused after {state.failures_in_a_row} failures in a row"
        entry = msgspec.structs.replace(entry, is_enabled=False, note=note)
        state = msgspec.structs.replace(state, failures_in_a_row=0, is_buffered=False)
    if not entry.is_enabled:
        state = msgspec.structs.replace(state, is_buffered=False)
        return Decision(entry, upcoming(entry, calendar, now, fraction, state))
    is_running = last_state is not None and last_state not in TERMINAL
    chosen, resume_at = _chosen(entry, state, calendar, now)
    if state.instant is not None and state.instant <= now and state.instant not in chosen:
        state = _noted(state, ScheduleRun(state.instant, now, None, "missed"))
    return _admitted(entry, upcoming(entry, calendar, resume_at, fraction, state), chosen, is_running, now)


def fired(state: ScheduleState, runs: tuple[ScheduleRun, ...], now: datetime) -> ScheduleState:
    """Return the state after these runs were enqueued, or failed to be."""
    sent = [run for run in runs if run.task_id is not None]
    state = _noted(state, *runs)
    if not sent:
        return state
    return msgspec.structs.replace(
        state, run_count=state.run_count + len(sent), last_run_at=now, last_task_id=sent[-1].task_id
    )


def _admitted(
    entry: ScheduleEntry, state: ScheduleState, chosen: list[datetime], is_running: bool, now: datetime
) -> Decision:
    """Apply the overlap policy to the instants."""
    if state.is_buffered and not chosen:
        chosen = [now]
    if not chosen or not is_running or entry.overlap == "allow":
        limit = None if entry.max_runs is None else max(0, entry.max_runs - state.run_count)
        kept = tuple(chosen[:limit])
        is_last = limit is not None and len(kept) >= limit
        ended = {"instant": None, "due_at": None} if is_last else {}
        return Decision(entry, msgspec.structs.replace(state, is_buffered=False, **ended), kept)
    match entry.overlap:
        case "cancel-other":
            return Decision(entry, state, (chosen[-1],), state.last_task_id)
        case "buffer-one":
            look_at = now + timedelta(seconds=BUFFER_LOOK_SECONDS)
            due_at = look_at if state.due_at is None else min(state.due_at, look_at)
            return Decision(entry, msgspec.structs.replace(state, is_buffered=True, due_at=due_at))
        case _:
            return Decision(
                entry, _noted(state, *(ScheduleRun(each, now, None, "the run before has not ended") for each in chosen))
            )


def _chosen(
    entry: ScheduleEntry, state: ScheduleState, calendar: Entry, now: datetime
) -> tuple[list[datetime], datetime]:
    """Return the instants to run, by the misfire policy, and from when on to look for the next instant."""
    if state.instant is None or state.instant > now:
        return [], now  # a buffered run looks again
    since = state.instant - timedelta.resolution
    until = now if entry.ends_at is None else min(now, entry.ends_at)
    if entry.misfire == "all":
        window = timedelta(seconds=entry.misfire_window_seconds)
        chosen = missed(calendar, since, until, "all", window)
        if not chosen and state.instant > now - window:
            chosen = [state.instant]  # of a calendar that was edited meanwhile
        return chosen, chosen[-1] if chosen else now
    chosen = missed(calendar, since, until, "once") or [state.instant]  # of a calendar that was edited meanwhile
    lateness = timedelta(seconds=LATE_SECONDS + entry.jitter_seconds)
    if entry.misfire == "skip" and chosen and now - chosen[-1] > lateness:
        return [], now
    return chosen, now


def _with_outcome(state: ScheduleState, last_state: State | None) -> ScheduleState:
    """Count the outcome of the last run, once."""
    if state.last_task_id is None or state.last_task_id == state.counted_task_id:
        return state
    match last_state:
        case State.FAILED:
            failures = state.failures_in_a_row + 1
        case State.SUCCEEDED:
            failures = 0
        case _:
            return state
    return msgspec.structs.replace(state, failures_in_a_row=failures, counted_task_id=state.last_task_id)


def _jittered(entry: ScheduleEntry, calendar: Entry, instant: datetime, fraction: float) -> datetime:
    if entry.jitter_seconds <= 0:
        return instant
    return jittered(instant, calendar.next_after(instant), entry.jitter_seconds, fraction)


def _noted(state: ScheduleState, *runs: ScheduleRun) -> ScheduleState:
    return msgspec.structs.replace(state, history=(*state.history, *runs)[-HISTORY:])
