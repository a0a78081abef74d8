"""While a unique task holds its key, an equal call returns the first one's handle."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from stem import InvalidArguments, Stem
from stem.testing import eager, run_pending


@pytest.fixture
def build(app: Stem) -> Any:
    return app.task(name="build", unique="until_done")(lambda what, tags=(): what)


def test_the_duplicate_has_the_first_ones_id(app: Stem, build: Any) -> None:
    first, second = build.enqueue("site"), build.enqueue(what="site")
    assert second.id == first.id
    assert (first.created, second.created) == (True, False)
    assert app.store.broker.depth()["default"].ready == 1


def test_other_arguments_or_another_queue_are_another_task(build: Any) -> None:
    ids = {build.enqueue("a").id, build.enqueue("b").id, build.options(queue="q").enqueue("a").id}
    assert len(ids) == 3


def test_headers_and_meta_do_not_change_the_key(build: Any) -> None:
    first = build.options(headers={"traceparent": "00-a-b-01"}).enqueue("a")
    assert build.options(headers={"traceparent": "00-c-d-01"}, meta={"x": 1}).enqueue("a").id == first.id


def test_the_order_of_keys_and_of_sets_does_not_change_the_key(build: Any) -> None:
    first = build.enqueue({"a": 1, "b": 2}, tags={"x", "y", "z"})
    assert build.enqueue({"b": 2, "a": 1}, tags={"z", "y", "x"}).id == first.id


def test_keys_that_are_no_strings_and_sets_without_order_are_answered(app: Stem, build: Any) -> None:
    first = build.enqueue({1: "a", 2: "b"})
    assert build.enqueue({2: "b", 1: "a"}).id == first.id
    assert build.enqueue({"1": "a", "2": "b"}).id == first.id
    with pytest.raises(InvalidArguments, match="pass a list"):
        build.enqueue({1, "a"})
    assert app.store.broker.depth()["default"].ready == 1


def test_it_may_come_again_when_the_first_has_ended(app: Stem, build: Any) -> None:
    first = build.enqueue("a")
    run_pending(app)
    assert build.enqueue("a").id != first.id


def test_a_key_held_for_seconds_outlives_the_task(app: Stem) -> None:
    ping = app.task(name="ping", unique=60)(lambda: None)
    with eager(app) as world:
        first = ping.enqueue()
        assert ping.enqueue().id == first.id
        world.clock.advance(61)
        assert ping.enqueue().id != first.id


def test_a_call_may_leave_uniqueness_out(build: Any) -> None:
    assert build.enqueue("a").id != build.options(unique=False).enqueue("a").id


def test_arguments_count_as_the_function_gets_them(app: Stem) -> None:
    at, summer = datetime(2026, 1, 1, tzinfo=UTC), timezone(timedelta(hours=2))

    @app.task(name="pay", unique="until_done")
    def pay(
        amount: float, at: datetime | None = None, tags: frozenset[str] = frozenset(), odd: Any = object
    ) -> None: ...

    first = pay.enqueue(10)
    for same in (pay.item(10.0), pay.item(10, None), pay.item(10, None, frozenset())):
        assert pay.enqueue_many([same]).existing == 1
    assert app.enqueue("pay", {"amount": 10.0, "tags": []}).id == first.id
    assert pay.enqueue(10, None, frozenset("a")).id != first.id
    dated = pay.enqueue(10, at)
    assert dated.id != first.id
    assert pay.enqueue(10, at.astimezone(summer)).id == dated.id


def test_a_call_by_name_alone_is_equal_to_one_that_leaves_the_defaults_out(app: Stem) -> None:
    elsewhere = Stem(settings=app.settings)
    build = app.task(name="build", unique="until_done")(lambda what, fast=False: what)
    first = build.enqueue("site", fast=False)
    assert elsewhere.enqueue("build", {"what": "site"}, check=False, unique="until_done").id == first.id
