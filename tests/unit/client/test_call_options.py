"""What one call may say, what it then carries, and what is refused before anything is written."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from stem import Delays, Exponential, Fixed, InvalidTask, Stem, UsageError
from stem.core.envelope import Envelope
from stem.core.record import TaskFilter


@pytest.fixture
def work(app: Stem) -> Any:
    return app.task(name="work", soft_limit=10, hard_limit=20)(lambda a=1: a)


def sent(app: Stem, queue: str = "default") -> Envelope:
    return app.store.broker.claim([queue], limit=1, lease_seconds=60)[0].envelope


REFUSED: list[dict[str, Any]] = [
    {"id": "a b"},
    {"id": ""},
    {"id": "x" * 129},
    {"id": "a\x00b"},
    {"id": "../etc"},
    {"id": 5},
    {"queue": "a/b"},
    {"queue": ""},
    {"priority": 12},
    {"priority": -1},
    {"priority": True},
    {"priority": 5.0},
    {"delay": -1},
    {"delay": float("nan")},
    {"delay": float("inf")},
    {"delay": 1e30},
    {"delay": 10**400},
    {"delay": -(10**400)},
    {"delay": timedelta(seconds=-1)},
    {"delay": "soon"},
    {"delay": True},
    {"not_before": datetime(2030, 1, 1)},
    {"not_before": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))},
    {"not_before": datetime(9999, 1, 1, tzinfo=UTC)},
    {"not_before": 5},
    {"delay": 5, "not_before": datetime(2030, 1, 1, tzinfo=UTC)},
    {"expires": 0},
    {"expires": -5},
    {"expires": datetime(2030, 1, 1)},
    {"headers": {"stem-signature": "x"}},
    {"headers": {"Stem-Other": "x"}},
    {"headers": {"a b": "x"}},
    {"headers": {"a": 5}},
    {"headers": {"a": "x\x00"}},
    {"headers": {"a": "\ud800"}},
    {"headers": {"a": "x" * 20_000}},
    {"headers": "a"},
    {"meta": {"a": object()}},
    {"meta": {"a": "\x00"}},
    {"meta": {"a": "x" * 70_000}},
    {"meta": {1: 2}},
    {"meta": {"a": float("nan")}},
    {"meta": []},
    {"max_retries": -1},
    {"max_retries": "3"},
    {"retry": -1},
    {"retry": Delays(5)},  # type: ignore[arg-type]
    {"retry": Exponential(jitter="x")},  # type: ignore[arg-type]
    {"retry": lambda attempt, error: 1.0},
    {"soft_limit": 0},
    {"soft_limit": 30},
    {"hard_limit": 5},
    {"unique": "always"},
    {"unique": -1},
    {"visibility_timeout": 0},
    {"colour": "red"},
]


@pytest.mark.parametrize("options", REFUSED, ids=lambda options: "+".join(options))
def test_contradictory_options_are_refused_and_nothing_is_written(
    app: Stem, work: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidTask):
        work.options(**options).enqueue()
    with pytest.raises(InvalidTask):
        app.enqueue("work", **options)
    assert app.store.broker.depth() == {}
    assert app.store.results.page(TaskFilter(), limit=1).items == []


def test_a_transaction_is_refused_by_a_store_that_cannot_join_one(app: Stem, work: Any) -> None:
    with pytest.raises(UsageError, match="cannot join a transaction; enqueue without connection="):
        work.options(connection=object()).enqueue()
    assert app.store.broker.depth() == {}


def test_a_call_carries_what_it_was_given(app: Stem, work: Any) -> None:
    at = datetime(2020, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    trace = {"traceparent": "00-1-2-01", "tracestate": "a=b", "baggage": "c=d"}
    work.options(
        id="order:1",
        queue="slow",
        priority=9,
        not_before=at,
        expires=timedelta(hours=1),
        headers=trace,
        meta={"tenant": ("a", "b")},
        max_retries=1,
        retry=[1, 2],
        soft_limit=3,
        hard_limit=4,
        visibility_timeout=30,
    ).enqueue(5)
    envelope = sent(app, "slow")
    assert (envelope.id, envelope.queue, envelope.priority, envelope.max_retries) == ("order:1", "slow", 9, 1)
    assert envelope.not_before == at
    assert envelope.expires_at == envelope.enqueued_at + timedelta(hours=1)
    assert envelope.headers == trace
    assert envelope.meta == {"tenant": ["a", "b"]}
    assert envelope.retry == Delays((1.0, 2.0))
    assert (envelope.soft_limit, envelope.hard_limit, envelope.visibility_timeout) == (3.0, 4.0, 30.0)
    assert envelope.arguments() == {"a": 5}


def test_options_pile_up_and_leave_the_task_as_it_was(app: Stem, work: Any) -> None:
    base = work.options(queue="slow", retry=5)
    base.options(priority=1).enqueue()
    envelope = sent(app, "slow")
    assert (envelope.queue, envelope.priority, envelope.retry) == ("slow", 1, Fixed(5.0))
    work.enqueue()
    assert sent(app).retry is None


def test_none_is_as_good_as_absent(app: Stem, work: Any) -> None:
    nothing = dict.fromkeys(["id", "queue", "priority", "delay", "not_before", "expires", "headers", "unique", "retry"])
    app.enqueue("work", args=None, **nothing)  # type: ignore[arg-type]
    assert sent(app).priority == 5


def test_an_id_of_the_callers_own_makes_enqueue_idempotent(app: Stem, work: Any) -> None:
    first = work.options(id="once").enqueue(1)
    second = work.options(id="once").enqueue(2)
    assert (first.id, second.id, first.created, second.created) == ("once", "once", True, False)
    assert app.store.broker.depth()["default"].ready == 1


def test_a_delayed_call_waits(app: Stem, work: Any) -> None:
    work.options(delay=60).enqueue()
    depth = app.store.broker.depth()["default"]
    assert (depth.ready, depth.delayed) == (0, 1)
