"""What becomes of an attempt: the whole table."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stem.core.decisions.retry import Fixed
from stem.core.decisions.settle import Policy, settle
from stem.core.outcome import (
    Cancelled,
    Dead,
    Died,
    Done,
    Interrupted,
    Outcome,
    Raised,
    Rejected,
    Requeue,
    Retry,
    Returned,
    Revoked,
    Settlement,
    Throttled,
    TimedOut,
)
from stem.core.record import TaskError

AGAIN = TaskError("ValueError", "boom", retryable=True)
NEVER = TaskError("ValueError", "boom", retryable=False)
POLICY = Policy(max_retries=3, retry=Fixed(7.0))
HARD_LIMIT = TaskError("HardTimeLimitExceeded", "The task ran past its limit of 1.5 s.", "stack", retryable=True)
KILLED = TaskError("IsolateDied", "The process that ran the task was ended by SIGKILL.", retryable=True)
EXITED = TaskError("IsolateDied", "The process that ran the task ended with exit code 3.", retryable=True)
ODD_SIGNAL = TaskError("IsolateDied", "The process that ran the task was ended by signal 99.", retryable=True)
STARVED = TaskError(
    "IsolateDied", "The process that ran the task was killed by the system for lack of memory.", retryable=True
)


@pytest.mark.parametrize(
    ("outcome", "attempt", "deaths", "expected"),
    [
        (Returned(msgspec.Raw(b"1")), 0, 0, Done(msgspec.Raw(b"1"))),
        (Returned(msgspec.Raw(b"1")), 99, 99, Done(msgspec.Raw(b"1"))),
        (Raised(AGAIN), 0, 0, Retry(7.0, AGAIN)),
        (Raised(AGAIN), 2, 0, Retry(7.0, AGAIN)),
        (Raised(AGAIN), 3, 0, Dead("retries-exhausted", AGAIN, {"maxRetries": 3})),
        (Raised(AGAIN, 0.5), 0, 0, Retry(0.5, AGAIN)),
        (Raised(AGAIN, 0.0), 0, 0, Retry(0.0, AGAIN)),
        (Raised(AGAIN, 0.5), 3, 0, Dead("retries-exhausted", AGAIN, {"maxRetries": 3})),
        (Raised(NEVER), 0, 0, Dead("not-retryable", NEVER)),
        (Raised(NEVER, 1.0), 0, 0, Dead("not-retryable", NEVER)),
        (TimedOut(1.5, "stack"), 0, 0, Retry(7.0, HARD_LIMIT)),
        (TimedOut(1.5, "stack"), 3, 0, Dead("retries-exhausted", HARD_LIMIT, {"maxRetries": 3})),
        (Died(-9), 0, 0, Requeue(7.0, KILLED.message, died=True)),
        (Died(-9), 99, 1, Requeue(7.0, KILLED.message, died=True)),
        (Died(-9), 0, 2, Dead("crash-loop", KILLED, {"deaths": 3, "runs": 3})),
        (Died(3), 0, 2, Dead("crash-loop", EXITED, {"deaths": 3, "runs": 3})),
        (Died(-99), 0, 2, Dead("crash-loop", ODD_SIGNAL, {"deaths": 3, "runs": 3})),
        (Died(-9, out_of_memory=True), 0, 2, Dead("crash-loop", STARVED, {"deaths": 3, "runs": 3})),
        (Revoked("not needed"), 0, 0, Cancelled("not needed")),
        (Interrupted("shutdown"), 99, 99, Requeue(0.0, "shutdown")),
        (Throttled(4.0, "10/min"), 99, 99, Requeue(4.0, "10/min", throttled=True)),
        (Rejected("unknown-task", NEVER), 0, 0, Dead("unknown-task", NEVER)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, msgspec.Struct) else str(value),
)
def test_every_outcome_has_its_settlement(outcome: Outcome, attempt: int, deaths: int, expected: Settlement) -> None:
    assert settle(outcome, POLICY, attempt=attempt, deaths=deaths, random_fraction=0.0) == expected


def test_without_retries_the_first_failure_is_the_last() -> None:
    settlement = settle(Raised(AGAIN), Policy(max_retries=0), attempt=0, deaths=0, random_fraction=0.0)
    assert settlement == Dead("retries-exhausted", AGAIN, {"maxRetries": 0})


def test_a_strategy_of_the_tasks_own_is_asked_with_attempt_and_error_and_never_goes_back_in_time() -> None:
    asked: list[tuple[int, TaskError]] = []

    def strategy(attempt: int, error: TaskError) -> float:
        asked.append((attempt, error))
        return -5.0

    settlement = settle(Raised(AGAIN), Policy(retry=strategy), attempt=1, deaths=0, random_fraction=0.0)
    assert settlement == Retry(0.0, AGAIN)
    assert asked == [(1, AGAIN)]


@given(st.integers(0, 200), st.integers(0, 50))
def test_a_task_that_only_fails_runs_one_more_time_than_it_may_retry(attempt: int, max_retries: int) -> None:
    settlement = settle(Raised(AGAIN), Policy(max_retries), attempt=attempt, deaths=0, random_fraction=0.5)
    assert isinstance(settlement, Retry) == (attempt < max_retries)


@given(st.integers(0, 20), st.integers(1, 20), st.integers(0, 99))
def test_deaths_are_counted_apart_from_attempts(deaths: int, max_deaths: int, attempt: int) -> None:
    policy = Policy(max_retries=0, max_deaths=max_deaths)
    settlement = settle(Died(-11), policy, attempt=attempt, deaths=deaths, random_fraction=0.0)
    assert isinstance(settlement, Dead) == (deaths + 1 >= max_deaths)
