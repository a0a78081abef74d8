"""Canvases of any nesting: their JSON form, what they store, and what they become."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stem import Exponential, InvalidTask, Stem, UnknownTask, chain, chord, group, workflow
from stem.client.canvas.canvas import Canvas
from stem.core.envelope import Push
from stem.testing import eager

app = Stem("memory://canvas-forms")
_numbers = count()


@app.task(name="keep")
def keep(what: Any = None, more: Any = None) -> Any:
    return what if more is None else [what, more]


def options() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "queue": st.sampled_from(["default", "other"]),
            "priority": st.integers(0, 9),
            "delay": st.sampled_from([5, "5m", timedelta(hours=1)]),
            "expires": st.sampled_from([60, "1h", datetime(2100, 1, 1, tzinfo=UTC)]),
            "headers": st.just({"tenant": "acme"}),
            "meta": st.just({"n": [1, {"two": None}]}),
            "max_retries": st.integers(0, 3),
            "retry": st.sampled_from([5, [1, 2, 3], Exponential(2.0, 60.0)]),
        },
    )


def signatures() -> st.SearchStrategy[Canvas[Any]]:
    made = st.builds(keep.s, st.one_of(st.none(), st.integers(), st.text(st.characters(codec="ascii"), max_size=5)))
    return st.one_of(made, st.just(keep.s()), st.builds(keep.si, st.integers()))


def canvases(*, with_options: bool = True) -> st.SearchStrategy[Canvas[Any]]:
    def composed(parts: st.SearchStrategy[Canvas[Any]]) -> st.SearchStrategy[Canvas[Any]]:
        several = st.lists(parts, max_size=3)
        kinds: st.SearchStrategy[Canvas[Any]] = st.one_of(
            st.builds(chain, several),
            st.builds(lambda members, partial: group(members, partial=partial), several, st.booleans()),
            st.builds(chord, several, parts),
            st.builds(lambda one, callback: one.link(callback), parts, parts),
            st.builds(lambda one, callback: one.link_error(callback), parts, parts),
            st.builds(a_workflow, parts, parts),
        )
        if not with_options:
            return kinds
        return st.one_of(kinds, st.builds(lambda one, given: one.set(**given), parts, options()))

    return st.recursive(signatures(), composed, max_leaves=12)


def a_workflow(one: Canvas[Any], other: Canvas[Any]) -> Canvas[Any]:
    made = workflow("flow")
    made.add("one", one)
    made.add("other", other, after=["one"])
    return made


@given(canvases())
def test_case_15_the_json_form_of_every_nesting_reads_as_the_same_canvas(canvas: Canvas[Any]) -> None:
    form = canvas.to_dict()
    read = app.canvas_of(msgspec.json.decode(msgspec.json.encode(form)))
    assert read == canvas
    assert read.to_dict() == form


@given(
    st.recursive(
        signatures(),
        lambda parts: st.one_of(
            st.builds(chain, st.lists(parts, max_size=3)),
            st.builds(group, st.lists(parts, max_size=3)),
            st.builds(chord, st.lists(parts, max_size=3), parts),
        ),
        max_leaves=10,
    )
)
def test_every_nesting_ends_in_eager_mode_and_what_it_gives_is_what_its_parts_give(canvas: Canvas[Any]) -> None:
    with eager(app):
        handle = app.submit(canvas)
        assert handle.get() == expected(canvas, None)
        assert set(handle.status().counts) <= {"succeeded"}


def expected(canvas: Canvas[Any], before: Any, *, has_before: bool = False) -> Any:
    """What a canvas gives, said in another way: by calling the functions."""
    match canvas.kind:
        case "task":
            one: Any = canvas
            args = (before, *one.args) if has_before and not one.is_immutable else one.args
            return keep(*args)
        case "chain":
            steps = [step for step in canvas.parts() if not step.is_empty]
            if not steps:
                return [] if any(part.kind == "group" for part in canvas.parts()) else None
            for step in steps:
                before, has_before = expected(step, before, has_before=has_before), True
            return before
        case "group":
            return [value for member in canvas.parts() for value in members(member, before, has_before)]
        case _:
            header, body = canvas.parts()
            value = expected(header, before, has_before=has_before)
            return value if body.is_empty else expected(body, value, has_before=True)


def members(member: Canvas[Any], before: Any, has_before: bool) -> list[Any]:
    if member.is_empty:
        return []
    steps = [step for step in member.parts() if not step.is_empty]
    if member.kind == "chain" and len(steps) == 1:
        return members(steps[0], before, has_before)
    value = expected(member, before, has_before=has_before)
    return list(value) if member.kind == "group" else [value]


@given(canvases(with_options=False), st.integers(2, 4))
def test_what_is_stored_grows_with_the_number_of_tasks(canvas: Canvas[Any], times: int) -> None:
    one, several = stored(group(canvas)), stored(group([canvas] * times))
    assert several <= times * one


def stored(canvas: Canvas[Any]) -> int:
    pushed: list[Push] = []
    with eager(app), pytest.MonkeyPatch.context() as patch:
        broker = type(app.store.broker)
        patch.setattr(broker, "push", lambda _self, pushes: pushed.extend(pushes))
        app.submit(canvas)
    return len(msgspec.json.encode(pushed))


def test_a_form_that_is_none_is_refused() -> None:
    with pytest.raises(UnknownTask):
        app.canvas_of({"kind": "task", "task": "unheard-of"})
    assert app.canvas_of({"kind": "task", "task": "unheard-of"}, check=False).to_dict()["task"] == "unheard-of"
    for form in ({}, {"kind": "ring"}, {"kind": "chain", "steps": 5}, {"kind": "chord", "header": {}, "body": {}}):
        with pytest.raises(InvalidTask, match="to_dict"):
            app.canvas_of(form)
    with pytest.raises(InvalidTask, match="connection"):
        keep.s().set(connection=object()).to_dict()
