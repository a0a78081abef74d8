"""A canvas as a tree: what was added while it ran, what goes on after a replay, and the path that decided how long it took."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from stem import State, Stem, TaskContext, TaskFailed, chain, chord, group, workflow
from stem.client.canvas.handle import CanvasHandle
from stem.client.canvas.shape import CanvasShape, ShapeEntry
from stem.client.canvas.tree import TreeLine, tree_lines
from stem.core.record import TaskRecord
from support.client.composable import Kit, composing

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def kit() -> Iterator[Kit]:
    with composing() as made:
        yield made


def ran(id: str, begin: float, end: float, **meta: Any) -> TaskRecord:
    at = [NOON + timedelta(seconds=each) for each in (begin, end)]
    return TaskRecord(
        id=id, name=id, queue="default", state=State.SUCCEEDED, attempt=0, fence=1, priority=5, payload=msgspec.Raw(b"1"),
        error=None, meta=meta, worker="w", enqueued_at=NOON, started_at=at[0], finished_at=at[1], heartbeat_at=None,
        updated_at=at[1],
    )  # fmt: skip


def critical(entries: list[ShapeEntry], *records: TaskRecord, added: tuple[TaskRecord, ...] = ()) -> set[str]:
    lines = tree_lines(CanvasShape(None, entries), {each.id: each for each in records}, added)
    return {line.id for line in lines if line.is_critical and line.id is not None}


def added(lines: list[TreeLine]) -> list[tuple[int, str, str | None]]:
    return [(line.depth, line.name, line.added) for line in lines if line.kind == "task"]


def spawning(kit: Kit) -> Any:
    @kit.app.task(name="more", max_retries=0)
    def more(ctx: TaskContext, what: int) -> int:
        ctx.spawn(kit.fragile.s(what + 1), chain(kit.add.s(1), kit.fragile.s()))
        return what

    return more


def replacing(kit: Kit) -> Any:
    @kit.app.task(name="spread")
    def spread(ctx: TaskContext, count: int) -> None:
        ctx.replace(chord([kit.fragile.s(number) for number in range(count)], kit.keep.s()))

    return spread


def test_tasks_that_were_spawned_or_took_the_place_of_others_are_below_the_one_they_came_from(kit: Kit) -> None:
    handle = (group(spawning(kit).s(5), kit.add.s(1)) | replacing(kit).si(2)).submit()
    status, lines = handle.tree()
    assert status == handle.status()
    assert (status.total, status.state) == (5, State.SUCCEEDED)
    assert added(lines) == [
        (2, "more", None),
        (3, "fragile", "spawned"),
        (3, "add", "spawned"),
        (3, "fragile", "spawned"),
        (2, "add", None),
        (1, "spread", None),
        (2, "fragile", "replacement"),
        (2, "fragile", "replacement"),
        (2, "keep", "replacement"),
    ]
    assert all(line.state is State.SUCCEEDED for line in lines if line.kind == "task")


def test_many_tasks_that_were_added_are_summed_up(kit: Kit) -> None:
    _, lines = replacing(kit).s(20).submit().tree()
    (summed,) = [line for line in lines if line.counts]
    assert (summed.name, summed.added, summed.counts) == ("fragile", "replacement", {State.SUCCEEDED: 20})


def test_a_tree_reads_each_record_once(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = chord([kit.add.s(1), kit.add.s(2)], kit.keep.s()).link(kit.keep.s()).submit()
    asked: Counter[str] = Counter()
    get = kit.app.store.results.get

    def counting(ids: Any, **options: Any) -> Any:
        asked.update(ids)
        return get(ids, **options)

    monkeypatch.setattr(kit.app.store.results, "get", counting)
    handle.tree()
    assert len(asked) == 6 and max(count for id, count in asked.items() if id != handle.id) == 1


def test_resume_finds_every_failure_among_what_was_added(kit: Kit) -> None:
    kit.broken = {6, 1, 0}
    handle = (group(spawning(kit).s(5), kit.fragile.s(0)) | replacing(kit).si(2)).submit()
    assert handle.status().state is State.FAILED
    kit.broken = {6, 1}
    assert len(handle.resume()) == 3, "the member, the one it spawned, and the last link of the chain it spawned"
    kit.world.run_pending()
    kit.broken = {0, 1}
    assert len(handle.resume()) == 2
    kit.world.run_pending()
    kit.broken = {0}
    assert len(handle.resume()) == 1
    kit.world.run_pending()
    status = handle.status()
    assert (status.state, [each.name for each in status.failures]) == (State.FAILED, ["fragile"])
    with pytest.raises(TaskFailed, match="broken 0"):
        handle.get()
    kit.broken = set()
    assert len(handle.resume()) == 1
    assert handle.status().state is State.RUNNING
    assert handle.get() == [0, 1]


def test_what_a_failure_has_cancelled_waits_for_its_replay(kit: Kit) -> None:
    kit.broken = {1}
    handle = chain(kit.fragile.s(1), kit.add.s(1), kit.keep.s()).submit()
    _, before = handle.tree()
    assert [line.waits_for for line in before] == [None] * 4
    (replayed,) = handle.resume()
    status, lines = handle.tree()
    assert status.state is State.RUNNING
    assert [(line.name, line.waits_for) for line in lines[1:]] == [
        ("fragile", None),
        ("add", replayed),
        ("keep", replayed),
    ]
    kit.broken = set()
    kit.world.run_pending()
    assert {line.waits_for for line in handle.tree()[1]} == {None}


def test_the_critical_path_of_a_workflow_goes_back_over_what_each_node_waited_for(kit: Kit) -> None:
    flow = workflow("orders")
    for name, after in {"pay": [], "pack": [], "print": [], "send": ["pack", "pay"], "bill": ["print"]}.items():
        flow.add(name, kit.nothing.si(), after=after)
    handle = flow.submit()
    entries = msgspec.json.decode(shape_of(handle), type=list[ShapeEntry])
    ids = dict(zip(flow.nodes, (entry.ids[0] for entry in entries if entry.ids), strict=True))
    times = {"pay": (0, 3), "pack": (0, 4), "print": (0, 6), "send": (4, 9), "bill": (6, 8)}
    records = [ran(ids[name], *when) for name, when in times.items()]
    assert critical(entries, *records) == {ids["pack"], ids["send"]}


def shape_of(handle: CanvasHandle[Any]) -> bytes:
    return msgspec.json.encode(handle.wait(1).result()["shape"])


def test_the_critical_path_goes_through_what_was_added() -> None:
    entries = [ShapeEntry("group", 0), ShapeEntry("task", 1, "m", ids=["a", "b"])]
    records = [ran("a", 0, 2), ran("b", 0, 3)]
    assert critical(entries, *records) == {"b"}
    spawned = (ran("s1", 2, 4, parentId="a"), ran("s2", 4, 5, parentId="s1"), ran("s3", 3, 4, parentId="b"))
    assert critical(entries, *records, added=spawned) == {"a", "s1", "s2"}
    join = msgspec.structs.replace(ran("j", 2, 4, parentId="b"), name="stem.join")
    inner = [ran(id, 1, end, parentId="b", joinId="j") for id, end in (("m1", 4), ("m2", 2))]
    replaced = [ran("a", 0, 2), ran("b", 0, 5, valueOf="body")]
    body = ran("body", 4, 5, parentId="j")
    assert critical(entries, *replaced, added=(*inner, join, body)) == {"b", "m1", "body"}


def test_values_have_the_annotated_types_also_of_members_from_a_generator_or_in_an_inner_group() -> None:
    with Stem("memory://typed-members") as app:
        from stem.testing import eager

        @app.task
        def when(day: int) -> datetime:
            return NOON + timedelta(days=day)

        @app.task
        def more(ctx: TaskContext, day: int) -> datetime:
            ctx.spawn(when.s(day + 1))
            return NOON

        with eager(app):
            days = [NOON + timedelta(days=day) for day in range(3)]
            assert group(when.s(day) for day in range(3)).submit().get() == days
            assert when.map(iter(range(3))).submit().get() == days
            inner = group(group(when.s(1) for _ in "ab"), chain(when.s(2), when.si(0)), group([when.s(2)]))
            assert inner.submit().get() == [days[1], days[1], days[0], days[2]]
            assert group(more.s(1), when.s(2)).submit().get() == [NOON, days[2], "2026-01-03T12:00:00Z"]
            many = group(when.s(0) for _ in range(50))
            many.submit()
            assert len(many._ends) == 1, "constant memory, however many there are"
