"""Options that say how a task may end, and what a call says of its parent."""

from typing import Any

import pytest

from stem import Drop, InvalidTask, State, Stem
from stem.testing import eager


def test_at_most_once_leaves_no_retries() -> None:
    app = Stem("memory://", max_retries=5)

    @app.task(at_most_once=True)
    def pay() -> None: ...

    assert (pay.definition.plan.max_retries, pay.definition.at_most_once) == (0, True)
    with pytest.raises(InvalidTask, match="at_most_once and has max_retries=2"):
        app.task(at_most_once=True, max_retries=2)(test_at_most_once_leaves_no_retries)


@pytest.mark.parametrize("option", ["at_most_once", "ignore_result"])
def test_a_switch_is_true_or_false(option: str) -> None:
    options: dict[str, Any] = {option: "yes"}
    with pytest.raises(InvalidTask, match=f"{option} is 'yes'; use True or False"):
        Stem("memory://").task(**options)(test_at_most_once_leaves_no_retries)


def test_a_result_that_is_too_large_names_the_option_of_results() -> None:
    app = Stem("memory://", max_result_bytes=100)

    @app.task(max_retries=0)
    def long() -> str:
        return "x" * 200

    with eager(app):
        record = long.enqueue().wait(5)
    assert record.error is not None and record.state is State.FAILED
    assert record.error.message.endswith("or raise max_result_bytes.")


@pytest.mark.parametrize("add_to_parent", [True, False])
def test_a_call_made_in_a_task_names_its_parent_unless_it_is_not_to(add_to_parent: bool) -> None:
    app = Stem("memory://")

    @app.task
    def child() -> None: ...

    @app.task
    def parent() -> str:
        return child.options(add_to_parent=add_to_parent).enqueue().id

    with eager(app):
        handle = parent.enqueue()
        meta = app.handle(handle.get()).status().meta
    assert meta.get("parentId") == (handle.id if add_to_parent else None)


def test_a_dropped_task_is_cancelled_and_a_value_that_is_ignored_is_none() -> None:
    app = Stem("memory://")

    @app.task
    def drop() -> None:
        raise Drop

    @app.task(ignore_result=True)
    def ignored() -> int:
        return 7

    with eager(app):
        assert drop.enqueue().wait(5).state is State.CANCELLED
        assert ignored.enqueue().get() is None
