"""Values of tasks that are made of those of others."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from stem.client.canvas.values import CHUNK, StoredValue, ValueMissing, Values
from stem.core.lifecycle import State
from stem.core.prerequisites import JOIN
from stem.core.record import TaskError


class Shelf:
    """Records by id, and in how large portions they were asked for."""

    def __init__(self, *records: StoredValue) -> None:
        self.records = {record.id: record for record in records}
        self.asked: list[int] = []

    def __call__(self, ids: Sequence[str]) -> Mapping[str, StoredValue]:
        self.asked.append(len(ids))
        return {id: self.records[id] for id in ids if id in self.records}

    def value(self, id: str) -> Any:
        return msgspec.json.decode(Values(self).of(id))


def done(id: str, value: Any, **meta: Any) -> StoredValue:
    return StoredValue(id, "task", State.SUCCEEDED, msgspec.Raw(msgspec.json.encode(value)), None, meta)


def join(id: str, value: Any, **meta: Any) -> StoredValue:
    return StoredValue(id, JOIN, State.SUCCEEDED, msgspec.Raw(msgspec.json.encode({"value": value})), None, meta)


def failed(id: str, state: State = State.FAILED, **meta: Any) -> StoredValue:
    error = TaskError("ValueError", "no", "the stack")
    return StoredValue(id, "task", state, msgspec.Raw(b"null"), error, meta)


def test_a_join_is_made_of_its_members_and_of_those_that_were_spawned() -> None:
    shelf = Shelf(done("a", 1), done("b", {"x": None}), done("c", 3), join("j", ["a", ["b"]], **{"spawned.c": True}))
    assert shelf.value("j") == [1, [{"x": None}], 3]
    assert Shelf(done("a", 1), join("j", "a"), join("k", {"é": "j", "n": []})).value("k") == {"é": 1, "n": []}
    assert Shelf(join("j", None)).value("j") is None


def test_a_task_that_was_replaced_or_passed_over_has_the_value_of_another() -> None:
    shelf = Shelf(done("a", 1, valueOf="b"), done("b", 2), failed("c", State.CANCELLED, valueOf="a", passed="x"))
    assert (shelf.value("a"), shelf.value("c")) == (2, 2)


def test_a_failure_stands_for_itself_without_its_stack() -> None:
    value = Shelf(failed("a", valueOf="gone"), join("j", ["a"])).value("j")
    assert value[0] | {"error": None} == {
        "id": "a",
        "name": "task",
        "state": "failed",
        "error": None,
        "cause": "a",
        "failed": True,
    }
    assert value[0]["error"]["stack"] == ""


def test_what_is_not_there_or_made_of_itself_is_told() -> None:
    with pytest.raises(ValueMissing, match="no record of task b"):
        Shelf(join("j", ["b"])).value("j")
    with pytest.raises(ValueMissing, match="depends on itself"):
        Shelf(join("j", ["k"]), join("k", ["j"])).value("j")


def test_deep_nestings_need_no_stack_and_records_are_read_in_portions() -> None:
    deep = Shelf(done("j0", 1), *(done(f"j{n}", None, valueOf=f"j{n - 1}") for n in range(1, 5000)))
    assert deep.value("j4999") == 1
    wide = Shelf(*(done(f"t{n}", n) for n in range(2500)), join("j", [f"t{n}" for n in range(2500)]))
    assert wide.value("j") == list(range(2500))
    assert wide.asked == [1, CHUNK, CHUNK, 500]


def test_the_end_of_a_chain_is_found_through_joins_and_only_for_it_and_chains_inside_it() -> None:
    shelf = Shelf(
        done("ender", "over", endsChain="outer"),
        failed("b", State.CANCELLED, valueOf="ender", passed="outer"),
        join("j", ["b"], chainId="inner"),
        done("inner", 0, chainId="inner", outerChainId="outer"),
        done("outer", 0, chainId="outer"),
    )
    values = Values(shelf)
    values.load(["j"])
    assert values.chain_ender(["j"], "inner") == ("outer", "ender")
    assert values.chain_ender(["j"], "outer") == ("outer", "ender")
    assert values.chain_ender(["j"], "another") is None
    assert shelf.value("j") == "over"
