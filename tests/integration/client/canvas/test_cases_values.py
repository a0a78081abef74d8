"""Cases from the field, 1 to 15: the shapes of canvases, and how values pass through them."""

from typing import Any

import msgspec
import pytest

from stem import InvalidArguments, State, TaskContext, chain, chord, group
from stem.client.canvas.canvas import Canvas
from support.client.composable import Kit


def test_case_01_each_result_is_the_next_ones_first_argument_and_an_immutable_signature_takes_none(kit: Kit) -> None:
    assert (kit.add.s(1, 2) | kit.add.s(3) | kit.add.s(4)).submit().get() == 10
    assert chain(kit.add.s(1, 2), kit.add.si(5, 5), kit.add.s(1)).submit().get() == 11
    assert chain(kit.add.s(1), kit.nothing.si()).submit().get() is None
    assert kit.ran("add") == [1, 3, 6, 1, 5, 10, 1]


def test_case_01_a_callback_that_can_take_no_value_is_refused_with_a_remedy(kit: Kit) -> None:
    with pytest.raises(InvalidArguments, match=r"nothing cannot take the value .* task\.si"):
        chain(kit.add.s(1), kit.nothing.s()).submit()
    with pytest.raises(InvalidArguments, match="add gets the value of the task before it as 'x'"):
        chain(kit.add.s(1), kit.add.s(1, 2)).submit()
    with pytest.raises(InvalidArguments, match="Expected `int`"):
        chain(kit.add.s(1), kit.add.s("two")).submit()
    assert kit.calls == []


def test_case_02_a_chain_of_one_is_as_the_bare_task(kit: Kit) -> None:
    for canvas in (kit.add.s(1, 2), chain(kit.add.s(1, 2)), chain(chain(kit.add.s(1, 2)))):
        handle = canvas.submit()
        assert handle.get() == 3
        assert [record.name for record in kit.records(handle)] == ["add", "stem.canvas"]


def test_case_03_group_task_group_run_in_strict_order(kit: Kit) -> None:
    canvas = group(kit.add.s(1), kit.add.s(2)) | kit.keep.s() | group(kit.keep.s(), kit.keep.s())
    assert canvas.submit().get() == [[1, 2], [1, 2]]
    assert kit.calls == [("add", 1), ("add", 2), ("keep", [1, 2]), ("keep", [1, 2]), ("keep", [1, 2])]


def test_case_04_four_groups_in_sequence_run_each_task_once(kit: Kit) -> None:
    groups = [group([kit.add.si(10 * number + member) for member in range(3)]) for number in range(4)]
    assert chain(groups).submit().get() == [30, 31, 32]
    assert kit.ran("add") == [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32]


def test_case_05_a_task_after_a_chord_runs_once_after_the_callback(kit: Kit) -> None:
    canvas = chord([kit.add.s(1), kit.add.s(2)], kit.keep.s()) | kit.keep.s()
    assert canvas.submit().get() == [1, 2]
    assert kit.ran("keep") == [[1, 2], [1, 2]]


def test_case_06_groups_in_groups_are_one_flat_list_and_a_chain_that_ends_in_a_group_stays_nested(kit: Kit) -> None:
    add = kit.add
    flat = group(add.s(1), group(add.s(2), group(add.s(3), add.s(4))), add.s(5))
    assert flat.submit().get() == [1, 2, 3, 4, 5]
    nested = group(add.s(1), add.s(2), chain(add.s(0), group(add.s(3), add.s(4))))
    assert nested.submit().get() == [1, 2, [3, 4]]
    assert (nested | kit.keep.s()).submit().get() == [1, 2, [3, 4]]


def test_case_07_results_are_in_submission_order_however_members_finish(kit: Kit) -> None:
    @kit.app.task
    def spread(ctx: TaskContext, of: int) -> int:
        ctx.replace(group(kit.add.s(of), kit.add.s(of + 1)))

    members = [kit.add.s(number).set(priority=number) for number in range(5)]
    handle = group(*members, spread.s(10).set(delay=5), kit.add.s(7)).submit()
    kit.world.clock.advance(5)
    assert handle.get() == [0, 1, 2, 3, 4, [10, 11], 7]
    assert kit.ran("add") != sorted(kit.ran("add"))


def test_case_08_a_value_reaches_the_head_of_each_chain_of_a_group(kit: Kit) -> None:
    canvas = kit.add.s(1) | group(kit.add.s(10) | kit.add.s(1), kit.add.s(20) | kit.add.s(2), kit.keep.s())
    assert canvas.submit().get() == [12, 23, 1]


@pytest.mark.parametrize("kind", ["task", "chain", "group", "chord"])
def test_case_09_the_list_reaches_a_callback_of_any_kind(kit: Kit, kind: str) -> None:
    callbacks: dict[str, tuple[Canvas[Any], Any]] = {
        "task": (kit.keep.s(), [1, 2]),
        "chain": (chain(kit.keep.s(), kit.keep.s()), [1, 2]),
        "group": (group(kit.keep.s(), kit.keep.s()), [[1, 2], [1, 2]]),
        "chord": (chord([kit.keep.s(), kit.keep.s()], kit.keep.s()), [[1, 2], [1, 2]]),
    }
    callback, value = callbacks[kind]
    assert chord([kit.add.s(1), kit.add.s(2)], callback).submit().get() == value
    assert kit.ran("add") == [1, 2]


def test_case_10_arguments_given_at_submit_reach_the_heads(kit: Kit) -> None:
    add = kit.add
    assert chain(add.s(2), add.s(3)).submit(1).get() == 6
    assert chord([add.s(1), add.s(2)], kit.keep.s()).submit(10).get() == [11, 12]
    assert chain(chord([add.s(1), add.s(2)], kit.keep.s()), kit.keep.s()).submit(10).get() == [11, 12]
    assert group(chain(add.s(y=1), add.s(1)), add.s(y=5)).submit(x=10).get() == [12, 15]
    assert group(chain(add.s(), add.s(1)), add.si(5)).submit(10, y=1).get() == [12, 5]


def test_case_11_empty_parts_are_skipped_and_arguments_kept(kit: Kit) -> None:
    assert kit.app.submit(group()).get() == []
    assert kit.app.submit(group()).status().state is State.SUCCEEDED
    assert kit.app.submit(chain()).get() is None
    assert chord([], kit.keep.s()).submit().get() == []
    assert kit.ran("keep") == [[]]
    assert (kit.add.s(1) | chord(group(), kit.keep.s())).submit().get() == []
    for canvas in (
        chain(group(), kit.add.s(1), kit.add.s(2)),
        chain(kit.add.s(1), group(), chain(), kit.add.s(2)),
        chain(chain(), kit.add.s(1), kit.add.s(2), group()),
        group(chain(group()), kit.add.s(1) | kit.add.s(2)) | kit.keep.s() | group(),
    ):
        assert canvas.submit(5).get() in (8, [8])


def test_case_12_a_header_of_one_gives_a_list_and_a_chain_of_one_group_is_waited_for(kit: Kit) -> None:
    assert chord([kit.add.s(1)], kit.keep.s()).submit().get() == [1]
    assert chord([chord([kit.add.s(1)], kit.keep.s())], kit.keep.s()).submit().get() == [[1]]
    header = [chain(group(kit.add.s(1), kit.add.s(2))), kit.add.s(3)]
    assert chord(header, kit.keep.s()).submit().get() == [1, 2, 3]


def test_case_13_a_header_from_a_generator_is_consumed_as_a_stream(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stem.client.canvas.push_batch.STAGED_FROM", 1000)
    monkeypatch.setattr("stem.client.canvas.push_batch.CHUNK", 100)
    held: list[int] = []
    staged = type(kit.app.store.staging).stage

    def watched(self: Any, job: str, part: str, calls: Any) -> None:
        held.append(len(calls.ids))
        staged(self, job, part, calls)

    monkeypatch.setattr(type(kit.app.store.staging), "stage", watched)
    handle = (group(kit.add.si(number) for number in range(2500)) | kit.keep.s()).submit()
    assert handle.get() == list(range(2500))
    assert held == [1001, *[100] * 14, 99]
    assert len(kit.ran("keep")) == 1


@pytest.mark.parametrize("count", [1000, 10_000])
def test_case_13_large_headers_call_back_once(kit: Kit, count: int) -> None:
    assert (kit.add.map(range(count)) | kit.keep.s()).submit().get() == list(range(count))
    assert len(kit.ran("keep")) == 1


def test_case_13_a_generator_that_fails_leaves_nothing(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stem.client.canvas.push_batch.STAGED_FROM", 10)
    monkeypatch.setattr("stem.client.canvas.push_batch.CHUNK", 10)

    def members() -> Any:
        yield from (kit.add.s(number) for number in range(50))
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        (group(members()) | kit.keep.s()).submit()
    assert kit.calls == []


@pytest.mark.parametrize("shape", ["sequence", "nested"])
def test_case_14_what_is_stored_is_linear_in_the_number_of_tasks(kit: Kit, shape: str) -> None:
    def stored(count: int) -> int:
        canvas: Canvas[Any] = kit.keep.s(0)
        for _ in range(count):
            part = group(kit.keep.si(1), kit.keep.si(2))
            callback = kit.keep.si(3)
            canvas = canvas | chord(part, callback) if shape == "sequence" else chord([canvas, part], callback)
        pushed: list[bytes] = []
        broker = kit.app.store.broker
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(broker), "push", lambda _self, pushes: pushed.append(msgspec.json.encode(pushes)))
            canvas.submit()
        return len(pushed[0])

    assert stored(80) < 2.1 * stored(40)


def test_case_15_options_of_members_and_of_the_whole_are_honoured(kit: Kit) -> None:
    canvas = group(
        kit.add.s(1).set(queue="own", priority=9), kit.add.s(2) | kit.add.s(3).set(expires=50, delay=7), kit.add.s(4)
    ).set(queue="all", priority=2, delay=60, expires=500, headers={"tenant": "acme"})
    handle = canvas.submit()
    assert kit.calls == []
    first, head, _, last = [record for record in kit.records(handle) if record.name == "add"]
    assert (first.queue, first.priority, last.queue, last.priority) == ("own", 9, "all", 2)
    kit.world.clock.advance(59)
    assert kit.calls == []
    kit.world.clock.advance(1)
    assert sorted(kit.ran("add")) == [1, 2, 4]
    kit.world.clock.advance(7)  # the delay counts from the release, and it has expired meanwhile
    with pytest.raises(Exception, match="Expired"):
        handle.get()
    assert kit.app.handle(head.id).status().state is State.SUCCEEDED
    events = kit.app.store.events.read(None, limit=1000)
    assert {event.data.get("tenant") for event in events if event.kind == "enqueued"} == {"acme"}


def test_case_15_root_and_parent_are_exact_through_ten_links_and_48_members(kit: Kit) -> None:
    links = chain(kit.add.s(0), *[kit.add.s(1) for _ in range(9)])
    handle = (links | group(kit.keep.s() for _ in range(48)) | kit.keep.s()).submit()
    assert handle.get() == [9] * 48
    records = kit.records(handle)
    assert {record.meta["rootId"] for record in records} == {handle.id}
    chained, members = records[:10], records[10:58]
    join, callback, root = records[58:]
    assert [record.meta.get("parentId") for record in chained] == [None, *(record.id for record in chained[:-1])]
    assert {record.meta["parentId"] for record in members} == {chained[-1].id}
    assert (join.name, callback.meta["parentId"]) == ("stem.join", join.id)
    assert (root.id, root.meta["parentId"]) == (handle.id, callback.id)


def test_case_15_a_canvas_of_a_running_task_belongs_to_it(kit: Kit) -> None:
    @kit.app.task
    def parent(ctx: TaskContext) -> str:
        return ctx.enqueue(kit.add.s(1) | kit.add.s(2)).id

    one = parent.enqueue()
    handle = kit.app.canvas(one.get())
    assert handle.get() == 3
    head, link, _ = kit.records(handle)
    assert (head.meta["parentId"], head.meta["rootId"], link.meta["rootId"]) == (one.id, one.id, one.id)
