"""What may be a task, and what its options may say."""

import functools
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest

from stem import Delays, Exponential, Fixed, InvalidTask, Stem
from stem.core.decisions.ratelimit import Rate, parse_rate


def plain() -> None: ...
def with_args(*values: int) -> None: ...
def positional_only(a: int, /) -> None: ...
def yields() -> Iterator[int]:
    yield 1


async def yields_later() -> AsyncIterator[int]:
    yield 1


class Shop:
    def order(self, what: str) -> None: ...

    @classmethod
    def orders(cls) -> None: ...


def of_itself(self: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (with_args, r"takes \*values, and arguments travel by name; take a list"),
        (positional_only, "'a' of task .* is positional-only"),
        (yields, "yields, and a task returns one value"),
        (yields_later, "yields, and a task returns one value"),
        (functools.partial(plain), "not a partial"),
        (Shop.order, r"Shop\.order is a method, and its self cannot travel"),
        (vars(Shop)["orders"].__func__, "is a method, and its cls cannot travel"),
        (staticmethod(plain).__get__(None, object).__class__, "not a type"),
        (5, "not a int"),
    ],
)
def test_a_function_that_cannot_be_a_task_is_refused_with_a_sentence(app: Stem, function: Any, sentence: str) -> None:
    with pytest.raises(InvalidTask, match=sentence):
        app.task(function)
    assert not app.tasks


@pytest.mark.parametrize(
    "options",
    [
        {"name": "a b"},
        {"name": ""},
        {"queue": "a/b"},
        {"max_retries": -1},
        {"max_retries": 1.5},
        {"max_retries": True},
        {"retry": -1},
        {"retry": []},
        {"retry": [1, -1]},
        {"retry": "soon"},
        {"retry": Exponential(jitter=2)},
        {"retry": Fixed(float("nan"))},
        {"soft_limit": 0},
        {"hard_limit": -5},
        {"hard_limit": float("inf")},
        {"soft_limit": 10, "hard_limit": 10},
        {"rate_limit": "often"},
        {"rate_limit": "5/fortnight"},
        {"rate_limit": "0/s"},
        {"rate_limit": 5},
        {"priority": 12},
        {"priority": "high"},
        {"unique": "forever"},
        {"unique": 0},
        {"visibility_timeout": 0},
        {"colour": "red"},
    ],
)
def test_an_option_out_of_bounds_is_refused_at_decoration(app: Stem, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        app.task(**options)(plain)
    assert not app.tasks


def test_options_of_a_task_are_kept_with_it(app: Stem) -> None:
    task = app.task(
        queue="mail",
        max_retries=7,
        soft_limit=timedelta(minutes=1),
        hard_limit=90,
        rate_limit="100/m",
        priority=8,
        unique=60,
        isolate=False,
        visibility_timeout=30,
    )(plain)
    definition, plan = task.definition, task.definition.plan
    assert (plan.queue, plan.max_retries, plan.priority, plan.unique) == ("mail", 7, 8, 60.0)
    assert (definition.soft_limit, definition.hard_limit, plan.visibility_timeout) == (60.0, 90.0, 30.0)
    assert definition.rate_limit == Rate(100, 60)
    assert not definition.isolate


def test_a_task_that_says_nothing_has_the_apps_defaults() -> None:
    app = Stem("memory://", queue="slow", max_retries=9, retry=4)
    definition = app.task(plain).definition
    assert (definition.plan.queue, definition.plan.max_retries, definition.retry) == ("slow", 9, Fixed(4.0))
    assert definition.plan.priority == 5


def by_attempt(attempt: int, error: object) -> float:
    return attempt * 10.0


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (5, Fixed(5.0)),
        ([1, 5, 30], Delays((1.0, 5.0, 30.0))),
        (Delays((1, 2)), Delays((1.0, 2.0))),
        (Exponential(1, 60), Exponential(1.0, 60.0)),
        (by_attempt, by_attempt),
    ],
)
def test_a_retry_may_be_written_in_several_ways(app: Stem, written: Any, meant: Any) -> None:
    assert app.task(retry=written)(plain).definition.retry == meant


@pytest.mark.parametrize(
    ("text", "rate"),
    [("5/s", Rate(5, 1)), ("100/m", Rate(100, 60)), (" 1.5 / h ", Rate(1.5, 3600)), ("2/10s", Rate(2, 10))],
)
def test_a_rate_is_a_count_over_a_time(text: str, rate: Rate) -> None:
    assert parse_rate(text) == rate


def test_a_task_is_still_the_function_it_was(app: Stem) -> None:
    @app.task
    def twice(number: int) -> int:
        """Two times the number."""
        return 2 * number

    assert twice(4) == 8
    assert (vars(twice)["__name__"], twice.__doc__) == ("twice", "Two times the number.")
    assert not twice.is_async


def test_a_plain_function_may_call_its_argument_what_it_likes(app: Stem) -> None:
    def local(cls: int) -> None: ...

    assert app.task(of_itself).definition.signature is not None
    assert app.task(local).definition.signature is not None
