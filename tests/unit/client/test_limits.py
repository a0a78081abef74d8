"""Limits as options: how long, how many at a time, how often."""

from datetime import timedelta
from typing import Any

import pytest

from stem import InvalidTask, Stem
from stem.client.run.admit import Admitted, admit
from stem.core.decisions.ratelimit import Rate


def admitted(app: Stem, **options: Any) -> Admitted:
    app.tasks["it"].options(**options).enqueue()
    (delivery,) = app.store.broker.claim(["default"], limit=1, lease_seconds=60)
    call = admit(app, delivery)
    assert isinstance(call, Admitted)
    return call


def test_time_limits_are_the_calls_then_the_tasks_then_the_apps() -> None:
    with Stem("memory://limits", soft_limit=timedelta(minutes=1), hard_limit=120) as app:
        app.task(name="it")(lambda: None)
        assert (admitted(app).soft_limit, admitted(app).hard_limit) == (60.0, 120.0)
        app.task(name="own", soft_limit=30)(lambda: None)
        assert app.tasks["own"].definition.soft_limit == 30.0
        assert app.tasks["own"].definition.hard_limit == 120.0
        assert admitted(app, soft_limit=5).soft_limit == 5.0
        assert admitted(app, soft_limit=5).hard_limit == 120.0


def test_limits_that_contradict_each_other_are_refused_wherever_they_come_from() -> None:
    with pytest.raises(InvalidTask, match="The soft limit of 9 s is not below the hard limit of 9 s"):
        Stem("memory://limits-wrong", soft_limit=9, hard_limit=9)
    with Stem("memory://limits-crossed", hard_limit=9) as app:
        with pytest.raises(InvalidTask, match="The soft limit of 10 s is not below the hard limit of 9 s"):
            app.task(name="it", soft_limit=10)(lambda: None)
        work = app.task(name="it")(lambda: None)
        with pytest.raises(InvalidTask, match="The soft limit of 11 s is not below the hard limit of 9 s"):
            work.options(soft_limit=11)


@pytest.mark.parametrize("option", ["soft_limit", "hard_limit"])
@pytest.mark.parametrize("wrong", [0, -1, "soon", True, float("nan")])
def test_an_apps_limit_is_a_time_above_zero(option: str, wrong: Any) -> None:
    with pytest.raises(InvalidTask, match=f"{option} is"):
        Stem("memory://limits-wrong", **{option: wrong})


def test_how_many_and_how_often_stay_with_the_definition(app: Stem) -> None:
    app.task(
        name="it", max_concurrency=3, concurrency_per="tenant", rate_limit="5/s", rate_burst=10, rate_per="X-Customer"
    )(lambda: None)
    it = app.tasks["it"].definition
    assert (it.max_concurrency, it.concurrency_per) == (3, "tenant")
    assert (it.rate_limit, it.rate_burst, it.rate_per) == (Rate(5.0, 1.0), 10.0, "X-Customer")
    app.task(name="free")(lambda: None)
    free = app.tasks["free"].definition
    assert (free.max_concurrency, free.concurrency_per, free.rate_burst, free.rate_per) == (None, None, None, None)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_concurrency": 0}, "max_concurrency 0 is not a whole number from 1 to 1,000,000"),
        ({"max_concurrency": 1.5}, r"max_concurrency 1\.5 is not"),
        ({"max_concurrency": True}, "max_concurrency True is not"),
        ({"max_concurrency": "3"}, "max_concurrency '3' is not"),
        ({"concurrency_per": "tenant"}, "concurrency_per is given and max_concurrency is not; say how many"),
        ({"max_concurrency": 1, "concurrency_per": "a b"}, "concurrency_per is 'a b'; give the name of a header"),
        ({"max_concurrency": 1, "concurrency_per": "stem-signature"}, "give the name of a header"),
        ({"max_concurrency": 1, "concurrency_per": ["tenant"]}, "give the name of a header"),
        ({"rate_burst": 5}, "rate_burst is given and rate_limit is not; write it like rate_limit='5/s'"),
        ({"rate_per": "tenant"}, "rate_per is given and rate_limit is not"),
        ({"rate_limit": "5/s", "rate_burst": 0.5}, r"rate_burst 0\.5 is not a number from 1 to"),
        ({"rate_limit": "5/s", "rate_burst": float("nan")}, "rate_burst nan is not"),
        ({"rate_limit": "5/s", "rate_burst": True}, "rate_burst True is not"),
        ({"rate_limit": "5/s", "rate_per": ""}, "rate_per is ''; give the name of a header"),
    ],
)
def test_a_limit_that_cannot_be_meant_is_refused_with_a_sentence(
    app: Stem, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidTask, match=sentence):
        app.task(name="it", **options)(lambda: None)
    assert not app.tasks
