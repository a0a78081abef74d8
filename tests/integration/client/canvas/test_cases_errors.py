"""Cases from the field, 16 and 23 to 33: counts, failures, and what a running task may do to its canvas."""

from typing import Any

import pytest

from stem import State, TaskCancelled, TaskContext, TaskFailed, UsageError, chain, chord, group
from stem.client.canvas.canvas import Canvas
from support.client.composable import Kit


def test_case_16_a_header_of_tasks_chains_groups_and_chords_is_counted_right(kit: Kit) -> None:
    header: list[Canvas[Any]] = [kit.add.s(1)]
    header += [chain(kit.add.s(number), kit.add.s(1)) for number in range(42)]
    header += [group(kit.add.s(number), kit.add.s(number)) for number in range(42)]
    header += [chord([kit.add.s(number)], kit.keep.s()) for number in range(42)]
    value = chord(header, kit.keep.s()).submit().get()
    assert len(value) == 1 + 42 + 84 + 42
    assert value[1] == 1
    assert value[-1] == [41]
    assert len(kit.ran("add")) == 1 + 84 + 84 + 42
    assert kit.ran("keep").count(value) == 1


def test_case_23_the_first_task_of_a_chain_inside_a_header_fails_and_the_chord_fails(kit: Kit) -> None:
    handle = chord([chain(kit.fail.s(1), kit.keep.s()), kit.add.s(1)], kit.keep.s()).submit()
    with pytest.raises(TaskFailed, match="broken 1"):
        handle.get()
    assert handle.status().state is State.FAILED
    assert kit.ran("keep") == []


def test_case_24_every_later_handle_raises_the_same_first_cause(kit: Kit) -> None:
    handle = chain(kit.add.s(1), kit.fail.s(), kit.keep.s(), kit.keep.s()).submit()
    records = kit.records(handle)
    for record in records[1:4]:
        with pytest.raises(TaskFailed, match=f"Task {records[1].id} .*broken 1"):
            kit.app.handle(record.id).get()
    with pytest.raises(TaskFailed, match=f"Task {records[1].id} .*broken 1") as caught:
        handle.get()
    assert caught.value.error is not None
    assert caught.value.error.type == "ValueError"


def test_case_25_later_groups_never_run_after_a_member_of_the_middle_one_failed(kit: Kit) -> None:
    groups = group(kit.add.s(1), kit.add.s(2)), group(kit.fail.s(), kit.add.si(3)), group(kit.keep.s(), kit.keep.s())
    handle = chain(groups).submit()
    with pytest.raises(TaskFailed, match=r"broken \[1, 2\]"):
        handle.get()
    assert kit.ran("keep") == []
    assert handle.status().counts == {State.SUCCEEDED: 3, State.FAILED: 1, State.CANCELLED: 2}


def test_case_26_error_callbacks_of_a_group_run_per_failed_member_of_a_header_once_and_of_a_member_alone(
    kit: Kit,
) -> None:
    members = [kit.fail.s(number) for number in range(42)] + [kit.fail.s("own").link_error(kit.on_error.s())]
    group([*members[:42], kit.add.s(1)]).link_error(kit.on_error.s()).submit()
    assert len({failed.id for failed in kit.failures}) == len(kit.failures) == 42

    kit.failures.clear()
    (group(members[:42]).link_error(kit.on_error.s()) | kit.keep.s()).submit()
    assert len(kit.failures) == 1
    assert (kit.failures[0].name, kit.failures[0].state) == ("stem.join", State.CANCELLED)

    kit.failures.clear()
    handle = group(members).submit()
    assert [failed.error.message for failed in kit.failures if failed.error] == ["broken own"]
    assert handle.status().counts == {State.FAILED: 43}


def test_case_26_error_callbacks_of_a_partial_header_run_per_failed_member(kit: Kit) -> None:
    header = group(kit.fail.s(1), kit.add.s(2), kit.fail.s(3), partial=True).link_error(kit.on_error.s())
    assert len((header | kit.keep.s()).submit().get()) == 3
    assert [failed.error.message for failed in kit.failures if failed.error] == ["broken 1", "broken 3"]


def test_case_27_an_inner_header_fails_and_the_outer_error_callback_runs_once(kit: Kit) -> None:
    inner = chord([kit.fail.s(1), kit.fail.s(2)], kit.keep.s())
    outer = chord([inner, kit.add.s(1)], kit.keep.s()).link_error(kit.on_error.s())
    with pytest.raises(TaskFailed, match="broken 1"):
        outer.submit().get()
    assert kit.ran("keep") == []
    assert len(kit.failures) == 1


def test_case_28_an_error_callback_that_raises_does_not_keep_the_others_from_running(kit: Kit) -> None:
    canvas = kit.fail.s(1).link_error(kit.on_error.s(raises=True)).link_error(kit.on_error.s())
    with pytest.raises(TaskFailed, match="broken 1"):
        canvas.link_error(kit.on_error.s(raises=True)).link_error(kit.on_error.s()).submit().get()
    assert len(kit.failures) == 4


def test_case_29_a_callback_that_asks_for_it_gets_successes_and_failures_together(kit: Kit) -> None:
    header = [kit.add.s(1), kit.fail.s(2), kit.drop.s(), kit.add.s(3)]
    one, failed, dropped, three = chord(header, kit.keep.s(), partial=True).submit().get()
    assert (one, three) == (1, 3)
    assert (failed["failed"], failed["state"], failed["error"]["type"]) == (True, "failed", "ValueError")
    assert (dropped["failed"], dropped["state"]) == (True, "cancelled")
    assert [type(value) for value in group(*header, partial=True).submit().get()] == [int, dict, dict, int]


def test_case_30_a_task_ends_its_chain_early_without_an_error(kit: Kit) -> None:
    handle = chain(kit.add.s(1), kit.end.s(), kit.keep.s(), group(kit.keep.s(), kit.add.si(9)), kit.keep.s()).submit()
    assert handle.get() == "ended with 1"
    assert kit.calls == [("add", 1), ("end", 1)]
    assert handle.status().state is State.SUCCEEDED
    assert handle.status().counts == {State.SUCCEEDED: 2, State.CANCELLED: 4}
    last = next(record for record in reversed(kit.records(handle)) if record.name == "keep")
    assert last.error is not None
    assert last.error.message == "chain-ended"
    assert kit.app.handle(last.id).get() == "ended with 1"


def test_case_30_an_end_reaches_inner_chains_and_stops_at_the_end_of_its_own(kit: Kit) -> None:
    inner = group(chain(kit.keep.s(), group(chain(kit.keep.s(), kit.keep.s()), kit.keep.s())), kit.keep.s())
    assert chain(kit.end.s(1), inner, kit.keep.s()).submit().get() == "ended with 1"
    assert chain(kit.end.s(1), inner).submit().get() == "ended with 1"
    assert kit.ran("keep") == []
    outer = group(chain(kit.end.s(1), kit.keep.s(), kit.keep.s()), kit.add.s(5))
    assert chain(outer, kit.keep.s()).submit().get() == ["ended with 1", 5]
    assert chain(group(kit.end.s(1), kit.add.s(2)), kit.keep.s(), kit.nothing.si()).submit().get() == "ended with 1"
    assert kit.ran("keep") == [["ended with 1", 5]]


def test_case_30_there_is_nothing_to_end_outside_of_a_chain(kit: Kit) -> None:
    with pytest.raises(TaskFailed, match="is no part of a chain"):
        kit.end.options(max_retries=0).enqueue(1).get()


def test_case_31_the_whole_is_revoked_and_no_callback_runs(kit: Kit) -> None:
    members = [chain(kit.add.s(number).set(delay=60), kit.keep.s()) for number in range(3)]
    canvas = chord([kit.add.s(9), *members], kit.keep.s()).link_error(kit.on_error.s()).link(kit.keep.s())
    handle = canvas.submit()
    assert len(handle.revoke(reason="not needed")) == 3 * 2 + 1 + 2
    with pytest.raises(TaskCancelled, match="not needed"):
        handle.get()
    kit.world.clock.advance(120)
    assert (kit.calls, kit.failures) == ([("add", 9)], [])
    assert handle.status().state is State.CANCELLED
    assert handle.status().counts == {State.SUCCEEDED: 1, State.CANCELLED: 7}
    assert handle.revoke() == []


REPLACEMENTS = ["task", "chain", "group", "chord"]


@pytest.mark.parametrize("kind", REPLACEMENTS)
def test_case_32_a_task_is_replaced_wherever_it_is_once_and_with_its_links_kept(kit: Kit, kind: str) -> None:
    made: dict[str, tuple[Canvas[Any], Any]] = {
        "task": (kit.add.s(1), 1),
        "chain": (chain(kit.add.s(1), kit.add.s(1)), 2),
        "group": (group(kit.add.s(1), kit.add.s(2)), [1, 2]),
        "chord": (chord([kit.add.s(1), kit.add.s(2)], kit.keep.s()), [1, 2]),
    }
    replaced: list[int] = []

    @kit.app.task(name="other")
    def other(ctx: TaskContext, _what: Any = None) -> None:
        replaced.append(1)
        ctx.replace(made[kind][0])

    value = made[kind][1]
    assert chain(other.s(), kit.keep.s()).submit().get() == value
    assert chain(kit.add.s(0), other.s(), kit.keep.s()).submit().get() == value
    assert chain(kit.add.s(0), other.s()).submit().get() == value
    assert group(kit.add.s(7), other.s()).submit().get() == [7, value]
    assert chord([other.s(), kit.add.s(7)], kit.keep.s()).submit().get() == [value, 7]
    assert chord([kit.add.s(7)], other.s()).submit().get() == value
    assert other.s().link(kit.keep.s()).submit().get() == value
    assert kit.ran("keep")[-1] == value
    assert other.enqueue().get() == value
    assert len(replaced) == 8


def test_case_32_an_empty_replacement_is_refused(kit: Kit) -> None:
    refused: list[str] = []

    @kit.app.task
    def empty(ctx: TaskContext) -> int:
        empty_ones: list[Canvas[Any]] = [group(), chain(), chain(group())]
        for canvas in empty_ones:
            with pytest.raises(UsageError, match=f"cannot be replaced by an empty {canvas.kind}") as caught:
                ctx.replace(canvas)
            refused.append(str(caught.value))
        return len(refused)

    assert empty.s().submit().get() == 3


def test_case_32_a_replacement_that_fails_fails_the_replaced(kit: Kit) -> None:
    @kit.app.task(max_retries=0)
    def other(ctx: TaskContext) -> None:
        ctx.replace(chain(kit.add.s(1), kit.fragile.s()))

    kit.broken.add(1)
    handle = chain(other.s(), kit.keep.s()).submit()
    with pytest.raises(TaskFailed, match="broken 1"):
        handle.get()
    status = handle.status()
    assert (status.state, [failure.name for failure in status.failures]) == (State.FAILED, ["fragile"])
    kit.broken.clear()
    assert len(handle.resume()) == 1
    assert handle.get() == 1
    assert kit.ran("add") == [1]


def test_case_33_a_failed_member_is_mended_and_what_it_had_held_up_runs(kit: Kit) -> None:
    kit.broken |= {2, 3}
    header = [kit.fragile.s(number) for number in range(4)]
    handle = chain(group(header), kit.keep.s(), kit.keep.s()).submit()
    with pytest.raises(TaskFailed, match="broken 2"):
        handle.get()
    kit.broken.remove(2)
    assert len(handle.resume()) == 2
    with pytest.raises(TaskFailed, match="broken 3"):
        handle.get()
    kit.broken.clear()
    assert len(handle.resume()) == 1
    assert handle.get() == [0, 1, 2, 3]
    assert sorted(kit.ran("fragile")) == [0, 1, 2, 2, 3, 3, 3]
    assert len(kit.ran("keep")) == 2
    assert handle.status().state is State.SUCCEEDED
