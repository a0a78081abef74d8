"""The retry policy of a call: its own options, then the task's, then the app's."""

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from stem.core.bounds import MAX_RETRIES as MAX_RETRIES
from stem.core.bounds import MAX_SECONDS as MAX_SECONDS
from stem.core.decisions.retry import Delays, Exponential, Fixed, RetryStrategy, delay
from stem.core.decisions.settle import Policy
from stem.core.envelope import Envelope
from stem.core.errors import InvalidTask
from stem.core.record import TaskError
from stem.core.settings.kinds import duration

RetryCallable = Callable[[int, TaskError], float]
RetryOption = RetryStrategy | float | str | Sequence[float | str] | RetryCallable


def policy_for(envelope: Envelope, retry: RetryStrategy | RetryCallable) -> Policy:
    """`retry` is the task's (or through it the app's) strategy; the envelope's, if it has one, was the call's own."""
    strategy = envelope.retry or retry
    return Policy(max_retries=envelope.max_retries, retry=_sure(strategy) if callable(strategy) else strategy)


def check_retry(value: RetryOption) -> RetryStrategy | RetryCallable:
    """Return a strategy from a strategy, seconds, a list of seconds, or a function of attempt and error."""
    match value:
        case Exponential(base, cap, jitter):
            seconds("The base of a retry delay", base)
            seconds("The cap of a retry delay", cap)
            if isinstance(jitter, bool) or not isinstance(jitter, int | float) or not 0 <= jitter <= 1:
                raise InvalidTask(f"The jitter of a retry delay is {jitter!r}; use a share from 0 to 1.")
            return Exponential(float(base), float(cap), float(jitter))
        case Fixed(wait):
            return Fixed(seconds("A retry delay", wait))
        case Delays(seconds=steps):
            return _delays(steps)
        case list() | tuple():
            return _delays(value)
        case _:
            return value if callable(value) else Fixed(seconds("A retry delay", value))


def check_travelling_retry(value: RetryOption) -> RetryStrategy:
    checked = check_retry(value)
    if callable(checked):
        raise InvalidTask("A retry function cannot travel with a call; give it to the task: @app.task(retry=…).")
    return checked


def check_max_retries(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_RETRIES:
        raise InvalidTask(f"max_retries {value!r} is not a whole number from 0 to {MAX_RETRIES:,}.")
    return value


def check_retry_on(value: Any) -> tuple[type[BaseException], ...]:
    classes = check_classes("retry_on", value)
    if not classes:
        raise InvalidTask("retry_on is empty; name the exceptions that are worth a retry, or set max_retries=0.")
    return classes


def check_classes(what: str, value: Any) -> tuple[type[BaseException], ...]:
    """One exception class or several."""
    classes = tuple(value) if isinstance(value, tuple | list) else (value,)
    for one in classes:
        if not isinstance(one, type) or not issubclass(one, BaseException):
            raise InvalidTask(f"{what} holds {one!r}; give an exception class, or a tuple of them.")
    return classes


def seconds(what: str, value: Any, *, above_zero: bool = False) -> float:
    """Return seconds from a number, a timedelta, or a text like `30m`. Raises InvalidTask."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, str):
        text = duration(value)
        value = value if text is None else text
    if isinstance(value, int) and abs(value) > MAX_SECONDS:
        value = math.inf if value > 0 else -math.inf  # a whole number may be too long for a float
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise InvalidTask(
            f"{what} is {value!r}; give a number of seconds, a timedelta, or a text like '30s', '5m' or '2h'."
        )
    if value < 0 or (above_zero and value == 0):
        raise InvalidTask(f"{what} is {value:g} s; it must {'be above zero' if above_zero else 'not be negative'}.")
    if value > MAX_SECONDS:
        raise InvalidTask(f"{what} is longer than a hundred years; give it in seconds.")
    # Always a float: 30 and 30.0 would differ in what a signature covers.
    return float(value)


def _sure(retry: RetryCallable) -> RetryCallable:
    """Wrap the task's delay function. If it fails, the default delay applies, so that the task still ends."""

    def delay_of(attempt: int, error: TaskError) -> float:
        try:
            return seconds("A retry delay", retry(attempt, error))
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - it is the task's own code
            return delay(Exponential(), attempt, 0.0)

    return delay_of


def _delays(steps: Sequence[float]) -> Delays:
    if not isinstance(steps, list | tuple):
        raise InvalidTask(f"The retry delays are {steps!r}; give a list of seconds.")
    if not steps:
        raise InvalidTask("A list of retry delays is empty; give at least one, the last one repeats.")
    return Delays(tuple(seconds("A retry delay", step) for step in steps))
