"""Arguments and results of annotated types come back as those types; what would not is said, and what is not is refused."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy
import pydantic
import pytest

from stem import InvalidArguments, State, Stem, TaskFailed
from stem.testing import eager, run_pending


class Order(pydantic.BaseModel):
    id: int
    due: datetime
    path: Path | None = None
    note: str = pydantic.Field(default="", alias="remark")


@dataclass
class Box:
    order: Order
    where: Path


DUE = datetime(2030, 1, 31, tzinfo=UTC)
ORDER = Order(id=7, due=DUE, path=Path("/srv/a"), remark="soon")


@pytest.fixture
def app() -> Iterator[Stem]:
    with Stem("memory://types", max_retries=0) as opened, eager(opened):
        yield opened


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Order, ORDER),
        (list[Order], [ORDER]),
        (Order | None, ORDER),
        (dict[str, Order], {"a": ORDER}),
        (Box, Box(ORDER, Path("b"))),
        (Path, Path("/srv/x")),
        (Path | None, Path("x")),
        (numpy.int64, numpy.int64(2**40)),
        (numpy.float32, numpy.float32(0.5)),
        (UUID, UUID(int=5)),
        (Decimal, Decimal("1.10")),
    ],
    ids=str,
)
def test_a_value_of_an_annotated_type_arrives_and_comes_back(app: Stem, kind: Any, value: Any) -> None:
    seen: list[Any] = []

    def echo(value: Any, other: Any = None) -> Any:
        seen.append(value)
        return value

    echo.__annotations__ = {"value": kind, "return": kind}
    handle = app.task(name="echo", unique="until_done")(echo).enqueue(value)
    assert handle.get() == value
    assert seen == [value] and type(seen[0]) is type(value)


def test_a_number_of_numpys_is_a_number_without_annotation(app: Stem) -> None:
    work = app.task(name="work")(lambda value: value)
    assert work.enqueue(numpy.float64(1.5)).get() == 1.5


def test_arguments_that_do_not_fit_a_model_are_refused_in_one_line(app: Stem) -> None:
    @app.task(name="work")
    def work(order: Order) -> None: ...

    with pytest.raises(
        InvalidArguments, match=r"do not fit work: id: Input should be a valid integer.* it takes"
    ) as it:
        work.send({"order": {"id": "seven", "due": DUE}})
    assert "\n" not in str(it.value)


def test_an_argument_that_is_not_json_is_named(app: Stem) -> None:
    @app.task(name="work")
    def work(one: int, other: Any) -> None: ...

    with pytest.raises(InvalidArguments, match="argument 'other' of work is not JSON"):
        work.enqueue(1, object())


@pytest.mark.parametrize("value", [DUE, timedelta(1), UUID(int=1), Decimal(1), Path("x"), {1}, b"x", ORDER], ids=repr)
def test_a_value_that_changes_on_its_way_draws_one_warning(
    app: Stem, caplog: pytest.LogCaptureFixture, value: Any
) -> None:
    @app.task(name="work")
    def work(when, plain: int = 1):  # type: ignore[no-untyped-def]
        return None

    with caplog.at_level(logging.WARNING, "stem.client"):
        work.enqueue(value)
        work.enqueue(value, plain=2)
    (record,) = caplog.records
    name = type(value).__qualname__
    assert f"Argument 'when' of work is a {name} and arrives as plain JSON" in record.message
    assert f"annotate it: when: {name}." in record.message


@pytest.mark.parametrize("value", [1, 1.5, "x", None, True, [1], (1,), {"a": 1}], ids=repr)
def test_values_that_json_keeps_cause_no_warning(app: Stem, caplog: pytest.LogCaptureFixture, value: Any) -> None:
    app.task(name="work")(lambda when: None).enqueue(value)
    assert not caplog.records


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, "5"),
        (int, 5.5),
        (int, None),
        (str, 5),
        (list[int], ["a"]),
        (Order, {"id": 1}),
        (Path, 5),
        (bool, 1),
    ],
    ids=str,
)
def test_a_result_that_breaks_its_annotation_fails_and_is_not_retried(app: Stem, kind: Any, value: Any) -> None:
    def work() -> Any:
        return value

    work.__annotations__ = {"return": kind}
    handle = app.task(name="work", max_retries=5)(work).enqueue()
    with pytest.raises(
        TaskFailed, match=r"work returned what its annotation does not allow: .* correct the code"
    ) as it:
        handle.get()
    assert it.value.error is not None and it.value.error.type == "ResultTypeMismatch"
    assert it.value.record is not None and it.value.record.attempt == 0


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (float, 5),
        (tuple[int, int], [1, 2]),
        (list[int], (1, 2)),
        (None, 5),
        (Any, object),
        (object, 5),
        (Iterator[int], [1]),
        (int | None, None),
        (Order, {"id": 1, "due": "2030-01-31T00:00:00Z"}),
        (str, UUID(int=1)),
    ],
    ids=str,
)
def test_a_result_that_keeps_to_it_in_spirit_is_fine(app: Stem, kind: Any, value: Any) -> None:
    def work() -> Any:
        return value if value is not object else "anything"

    work.__annotations__ = {"return": kind}
    handle = app.task(name="work")(work).enqueue()
    assert handle.status().state is State.SUCCEEDED


def test_a_result_that_is_too_large_names_what_bounds_it() -> None:
    with Stem("memory://large-result", max_args_bytes=100, max_retries=0) as app:
        handle = app.task(name="work")(lambda: "x" * 200).enqueue()
        run_pending(app)
        with pytest.raises(TaskFailed, match=r"JSON of the result takes .* max_result_bytes"):
            handle.get(0)
