"""Decide what becomes of an attempt. Pure: no clock, no store, no logging."""

import signal
from collections.abc import Callable

import msgspec

from stem.core import retry
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
from stem.core.retry import Exponential, RetryStrategy

MAX_DEATHS = 3


class Policy(msgspec.Struct, frozen=True):
    """What the task, the call and the app agreed on for failures. A callable strategy cannot travel; it stays with the task."""

    max_retries: int = 3
    retry: RetryStrategy | Callable[[int, TaskError], float] = Exponential()
    max_deaths: int = MAX_DEATHS


def settle(outcome: Outcome, policy: Policy, *, attempt: int, deaths: int, roll: float) -> Settlement:
    """`attempt` and `deaths` are the delivery's; `roll` in [0, 1) is the chance in the retry delay."""
    match outcome:
        case Returned(payload):
            return Done(payload)
        case Raised(error, wish):
            if not error.retryable:
                return Dead("not-retryable", error)
            return _again(error, policy, attempt, roll, wish)
        case TimedOut(limit, stack):
            error = TaskError(
                "HardTimeLimitExceeded", f"The task ran past its limit of {limit:g} s.", stack, retryable=True
            )
            return _again(error, policy, attempt, roll, None)
        case Died() as death:
            if deaths + 1 >= policy.max_deaths:
                return Dead("crash-loop", _obituary(death), {"deaths": deaths + 1, "runs": attempt + deaths + 1})
            return Requeue(_delay(policy, _obituary(death), deaths, roll), _obituary(death).message, died=True)
        case Revoked(reason):
            return Cancelled(reason)
        case Interrupted(reason):
            return Requeue(0.0, reason)
        case Throttled(seconds, limit):
            return Requeue(seconds, limit, throttled=True)
        case Rejected(reason, error):
            return Dead(reason, error)


def _again(error: TaskError, policy: Policy, attempt: int, roll: float, wish: float | None) -> Settlement:
    if attempt >= policy.max_retries:
        return Dead("retries-exhausted", error, {"maxRetries": policy.max_retries})
    return Retry(_delay(policy, error, attempt, roll) if wish is None else wish, error)


def _delay(policy: Policy, error: TaskError, attempt: int, roll: float) -> float:
    if callable(policy.retry):
        return max(0.0, policy.retry(attempt, error))
    return retry.delay(policy.retry, attempt, roll)


def _obituary(death: Died) -> TaskError:
    if death.out_of_memory:
        how = "was killed by the system for want of memory"
    elif death.exit_code < 0:
        how = f"was ended by {_signal_name(-death.exit_code)}"
    else:
        how = f"ended with exit code {death.exit_code}"
    return TaskError("IsolateDied", f"The process that ran the task {how}.", retryable=True)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
