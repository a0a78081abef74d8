"""Decide what becomes of an attempt. Pure: no clock, no store, no logging."""

import signal
from collections.abc import Callable

import msgspec

from stem.core.decisions import retry
from stem.core.decisions.retry import Exponential, RetryStrategy
from stem.core.outcome import (
    Block,
    Cancelled,
    Dead,
    Died,
    Done,
    Interrupted,
    Outcome,
    Passed,
    Raised,
    Rejected,
    Replaced,
    Requeue,
    Retry,
    Returned,
    Revoked,
    Settlement,
    Suspended,
    Throttled,
    TimedOut,
)
from stem.core.record import TaskError

MAX_DEATHS = 3
CHAIN_ENDED = "chain-ended"  # why the later links of a chain that was ended early are cancelled


class Policy(msgspec.Struct, frozen=True):
    """How failures are retried. A callable strategy cannot travel; it stays with the task."""

    max_retries: int = 3
    retry: RetryStrategy | Callable[[int, TaskError], float] = Exponential()
    max_deaths: int = MAX_DEATHS


def settle(outcome: Outcome, policy: Policy, *, attempt: int, deaths: int, random_fraction: float) -> Settlement:
    """Turn the outcome of an attempt into a settlement. `random_fraction` in [0, 1) is the random part of the delay."""
    match outcome:
        case Returned(payload):
            return Done(payload)
        case Raised(error, retry_after, max_retries):
            if not error.retryable:
                return Dead("not-retryable", error)
            if max_retries is not None:
                policy = msgspec.structs.replace(policy, max_retries=max_retries)
            return _again(error, policy, attempt, random_fraction, retry_after)
        case TimedOut(limit, stack):
            error = TaskError(
                "HardTimeLimitExceeded", f"The task ran past its limit of {limit:g} s.", stack, retryable=True
            )
            return _again(error, policy, attempt, random_fraction, None)
        case Died() as crash:
            if deaths + 1 >= policy.max_deaths:
                return Dead("crash-loop", _crash_error(crash), {"deaths": deaths + 1, "runs": attempt + deaths + 1})
            return Requeue(
                _delay(policy, _crash_error(crash), deaths, random_fraction), _crash_error(crash).message, died=True
            )
        case Rejected(reason, error):
            return Dead(reason, error)
        case _:
            return _blameless(outcome)


def _blameless(
    outcome: Revoked | Interrupted | Suspended | Throttled | Replaced | Passed,
) -> Cancelled | Requeue | Block:
    """The settlement of an attempt that neither succeeded nor failed."""
    match outcome:
        case Revoked(reason):
            return Cancelled(reason)
        case Interrupted(reason):
            return Requeue(0.0, reason)
        case Suspended(seconds, event, reason):
            return Requeue(seconds, reason, event=event)
        case Throttled(seconds, limit):
            return Requeue(seconds, limit, throttled=True)
        case Replaced(by):
            return Block((by,))
        case Passed():
            return Cancelled(CHAIN_ENDED, passes=True)


def _again(
    error: TaskError, policy: Policy, attempt: int, random_fraction: float, retry_after: float | None
) -> Settlement:
    if attempt >= policy.max_retries:
        return Dead("retries-exhausted", error, {"maxRetries": policy.max_retries})
    return Retry(_delay(policy, error, attempt, random_fraction) if retry_after is None else retry_after, error)


def _delay(policy: Policy, error: TaskError, attempt: int, random_fraction: float) -> float:
    if callable(policy.retry):
        return max(0.0, policy.retry(attempt, error))
    return retry.delay(policy.retry, attempt, random_fraction)


def _crash_error(crash: Died) -> TaskError:
    if crash.out_of_memory:
        how = "was killed by the system for lack of memory"
    elif crash.exit_code < 0:
        how = f"was ended by {_signal_name(-crash.exit_code)}"
    else:
        how = f"ended with exit code {crash.exit_code}"
    return TaskError("IsolateDied", f"The process that ran the task {how}.", retryable=True)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
