"""What a due entry enqueues, and when it is due next."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from stem.client.schedules.check import calendar_of
from stem.contracts.schedules import ScheduleEntry, ScheduleState
from stem.core.lifecycle import State
from stem.scheduler.decide import HISTORY, Decision, decide, fired, upcoming

NOON = datetime(2030, 1, 31, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def entry(spec: str = "every 1 minute", **fields: Any) -> ScheduleEntry:
    return ScheduleEntry(id="it", task="it", spec=spec, **fields)


def decided(
    it: ScheduleEntry, now: datetime, *, instant: datetime = NOON, last: State | None = None, **state: Any
) -> Decision:
    before = ScheduleState(instant=instant, due_at=instant, **state)
    return decide(it, before, calendar_of(it), now=now, last_state=last, fraction=0.5)


def test_an_instant_is_enqueued_and_the_next_one_follows() -> None:
    decision = decided(entry(), NOON + timedelta(seconds=0.2))
    assert decision.instants == (NOON,)
    assert decision.state.instant == decision.state.due_at == NOON + MINUTE


def test_case_23_a_new_entry_and_one_that_is_enabled_again_wait_for_the_next_instant() -> None:
    state = upcoming(entry(), calendar_of(entry()), NOON, 0.0, ScheduleState())
    assert state.instant == NOON + MINUTE


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [
        ("skip", []),
        ("once", [NOON + 720 * MINUTE]),
        ("all", [NOON + n * MINUTE for n in range(720, -1, -1)][:60][::-1]),
    ],
)
def test_case_22_after_twelve_hours_of_absence_the_policy_decides(misfire: Any, expected: list[datetime]) -> None:
    it = entry(misfire=misfire, misfire_window_seconds=3600.0)
    now = NOON + 720 * MINUTE + (timedelta(seconds=40) if misfire == "skip" else timedelta(0))
    decision = decided(it, now)
    assert list(decision.instants) == expected
    assert decision.state.instant == NOON + 721 * MINUTE
    assert decision.state.history[-1].reason == "missed"


def test_a_little_late_is_not_missed() -> None:
    assert decided(entry("0 12 * * *", misfire="skip"), NOON + timedelta(seconds=20)).instants == (NOON,)


def test_case_21_years_of_absence_from_an_entry_of_every_second_cost_no_time() -> None:
    it = entry("every 1 second")
    assert decided(it, NOON + timedelta(days=3650)).instants == (NOON + timedelta(days=3650),)


def test_all_runs_of_a_long_absence_come_in_parts() -> None:
    it, now = entry("every 1 second", misfire="all"), NOON + timedelta(seconds=2500)
    found: list[datetime] = []
    state = ScheduleState(instant=NOON, due_at=NOON)
    while state.instant is not None and state.instant <= now:
        decision = decide(it, state, calendar_of(it), now=now, last_state=None, fraction=0.0)
        assert len(decision.instants) <= 1000
        found += decision.instants
        state = decision.state
    assert found == [NOON + timedelta(seconds=n) for n in range(2501)]


def test_a_disabled_entry_enqueues_nothing_and_its_next_time_advances() -> None:
    decision = decided(entry(is_enabled=False), NOON + 5 * MINUTE)
    assert (decision.instants, decision.state.instant) == ((), NOON + 6 * MINUTE)


def test_an_entry_ends_with_its_last_run_or_its_end() -> None:
    last = decided(entry(max_runs=3), NOON, run_count=2)
    assert (last.instants, last.state.instant) == ((NOON,), None)
    ended = decided(entry(ends_at=NOON + timedelta(seconds=30)), NOON)
    assert (ended.instants, ended.state.due_at) == ((NOON,), None)
    assert (
        upcoming(entry(starts_at=NOON), calendar_of(entry()), NOON - 9 * MINUTE, 0.0, ScheduleState()).instant == NOON
    )


def test_case_30_jitter_delays_and_never_reaches_the_next_instant() -> None:
    it = entry(jitter_seconds=600.0)
    for fraction in (0.0, 0.5, 0.999999):
        state = upcoming(it, calendar_of(it), NOON, fraction, ScheduleState())
        assert state.instant == NOON + MINUTE
        assert state.due_at is not None and state.instant <= state.due_at < state.instant + MINUTE


@pytest.mark.parametrize("last", [State.QUEUED, State.RUNNING, State.RETRIED])
def test_case_29_overlap_while_the_run_before_goes_on(last: State) -> None:
    running: dict[str, Any] = {"last": last, "last_task_id": "before"}
    assert decided(entry(overlap="allow"), NOON, **running).instants == (NOON,)
    skipped = decided(entry(overlap="skip"), NOON, **running)
    assert skipped.instants == () and skipped.state.history[-1].reason == "the run before has not ended"
    other = decided(entry(overlap="cancel-other"), NOON, **running)
    assert (other.instants, other.cancels) == ((NOON,), "before")


def test_case_29_one_run_is_buffered_until_the_run_before_has_ended() -> None:
    it = entry("every 1 hour", overlap="buffer-one")
    first = decided(it, NOON, last=State.RUNNING, last_task_id="before")
    assert first.instants == () and first.state.is_buffered
    later = NOON + timedelta(seconds=2)
    again = decide(it, first.state, calendar_of(it), now=later, last_state=State.RUNNING, fraction=0.0)
    assert again.instants == () and again.state.is_buffered
    done = decide(it, again.state, calendar_of(it), now=later, last_state=State.SUCCEEDED, fraction=0.0)
    assert done.instants == (later,) and not done.state.is_buffered
    assert done.state.instant == NOON + timedelta(hours=1)


def test_an_entry_is_paused_after_failures_in_a_row() -> None:
    it = entry(pause_after_failures=2)
    state = ScheduleState(instant=NOON, due_at=NOON)
    now = NOON
    for number, outcome in enumerate([State.FAILED, State.SUCCEEDED, State.FAILED, State.FAILED]):
        state = msgspec.structs.replace(state, last_task_id=f"task-{number}")
        decision = decide(it, state, calendar_of(it), now=now, last_state=outcome, fraction=0.0)
        it, state, now = decision.entry, decision.state, now + MINUTE
        assert it.is_enabled == (number < 3)
    assert it.note == "paused after 2 failures in a row"


def test_a_failure_is_counted_once() -> None:
    it = entry("every 1 hour", pause_after_failures=2, overlap="skip")
    state = decided(it, NOON, last=State.FAILED, last_task_id="a").state
    decision = decide(it, state, calendar_of(it), now=NOON + timedelta(hours=1), last_state=State.FAILED, fraction=0.0)
    assert decision.entry.is_enabled


def test_the_history_has_the_latest_hundred_runs() -> None:
    state = ScheduleState(instant=NOON, due_at=NOON)
    for number in range(150):
        it, now = entry(misfire="skip"), NOON + timedelta(days=number)
        state = decide(
            it, state, calendar_of(it), now=now + 31 * timedelta(seconds=1), last_state=None, fraction=0.0
        ).state
        state = fired(msgspec.structs.replace(state, instant=now + timedelta(days=1), due_at=now), (), now)
    assert len(state.history) == HISTORY
