"""What a canvas refuses and carries: options, transactions, signatures, names, callbacks aside."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import msgspec
import pytest

from stem import (
    CanvasHandle,
    InvalidArguments,
    InvalidTask,
    Middleware,
    Route,
    State,
    Stem,
    TaskContext,
    TaskFailed,
    TaskNotFound,
    UsageError,
    chain,
    chord,
    group,
    workflow,
)
from stem.core.delivery import Ending
from stem.core.envelope import Envelope
from stem.core.outcome import Done
from stem.core.prerequisites import CANVAS, JOIN
from stem.testing import eager, run_pending
from support.client.composable import Kit, composing


@pytest.fixture
def kit() -> Iterator[Kit]:
    with composing() as made:
        yield made


def test_the_names_of_joins_are_reserved(app: Stem) -> None:
    for name in (JOIN, CANVAS):
        with pytest.raises(InvalidTask, match="is reserved"):
            app.task(name=name)(lambda: None)
        with pytest.raises(InvalidTask, match="is reserved"):
            app.task(name="it", aliases=[name])(lambda: None)
        with pytest.raises(InvalidTask, match="is reserved"):
            app.enqueue(name, check=False)


def test_what_is_no_signature_is_refused_with_a_remedy(kit: Kit) -> None:
    add: Any = kit.add
    makes: list[Callable[[], object]] = [lambda: chain(add.s(1), add), lambda: group([add]), lambda: add.s(1).link(add)]
    for make in makes:
        with pytest.raises(InvalidTask, match=r"write add\.s\(…\)"):
            make()
    with pytest.raises(InvalidTask, match="made of signatures"):
        group(5)  # type: ignore[call-overload]
    with pytest.raises(InvalidTask, match="header of a chord"):
        chord(kit.add.s(1), kit.keep.s())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"app\.submit"):
        group().submit()
    with pytest.raises(InvalidTask, match="no option 'countdown'; use delay"):
        kit.add.s(1).set(countdown=5)  # type: ignore[call-arg]


def test_tasks_of_another_app_and_unique_tasks_are_refused(kit: Kit, app: Stem) -> None:
    @app.task
    def strange() -> None: ...

    @kit.app.task(unique="until_done")
    def single() -> None: ...

    with pytest.raises(InvalidTask, match="of another app"):
        chain(kit.add.s(1), strange.si()).submit()
    with pytest.raises(InvalidTask, match=r"is unique.*set\(unique=False\)"):
        group(single.s()).submit()
    group(single.s().set(unique=False)).submit()

    @kit.app.task(debounce=5)
    def late() -> None: ...

    with pytest.raises(InvalidTask, match="A later call may cancel task"):
        group(late.s()).submit()


def test_a_singleton_in_a_chain_has_a_key_of_what_is_known_when_it_is_sent(kit: Kit) -> None:
    @kit.app.task(name="one", singleton=True)
    def one(what: int) -> int:
        return what

    @kit.app.task(singleton=True, key=["account"])
    def per_account(what: int, account: str) -> int:
        return what

    with pytest.raises(InvalidTask, match="give it a key without 'what'"):
        (kit.add.s(1) | one.s()).submit()
    assert (kit.add.s(1) | per_account.s(account="a")).submit().get() == 1


def test_a_singleton_has_the_same_key_inside_of_a_chain_and_alone() -> None:
    with Stem("memory://singleton-keys") as app:

        @app.task(name="bill", singleton=True, key=["account", "on", "kind"])
        def bill(what: int, account: float, on: date, kind: str = "usual") -> int:
            return what

        bill.enqueue(1, 7, date(2026, 1, 2), kind="usual")
        bill.enqueue(1, 7.0, date(2026, 1, 2))
        chain(bill.si(1, 7, date(2026, 1, 2)), bill.s(7, date(2026, 1, 2), "usual")).submit()
        app.enqueue("bill", {"what": 1, "account": 7, "on": "2026-01-02"})
        other = bill.enqueue(1, 8, date(2026, 1, 2))
        keys: dict[str, str] = {}
        for _ in range(2):  # the link of the chain follows
            for delivery in app.store.broker.claim(["default"], limit=10, lease_seconds=60):
                keys[delivery.lease.id] = delivery.envelope.headers["singleton"]
                app.store.broker.settle([Ending(delivery.lease, Done(msgspec.Raw(b"1")))], worker="w1")
        assert len(keys) == 6
        assert keys.pop(other.id) not in set(keys.values())
        assert len(set(keys.values())) == 1


def test_routes_decide_about_tasks_of_a_canvas() -> None:
    routes = [Route("add", queue="sums", tenant="acme"), Route("keep", broadcast=True)]
    with Stem("memory://routed-canvas", routes=routes) as app:
        kit = Kit(app)
        with eager(app):
            handle = (kit.add.s(1) | kit.add.s(2)).submit()
            assert handle.get() == 3
            assert {record.queue for record in kit.records(handle)} == {"sums"}
            with pytest.raises(InvalidTask, match="is broadcast to all workers"):
                (kit.add.s(1) | kit.keep.s()).submit()


def test_ids_make_a_submit_repeatable_and_are_given_once(kit: Kit) -> None:
    canvas = chord([kit.add.s(1), kit.add.s(2).set(id="mine")], kit.keep.s()).set(id="nightly")
    first, second = canvas.submit(), canvas.submit()
    assert (first.id, second.id) == ("nightly", "nightly")
    assert second.get() == [1, 2]
    assert len(kit.calls) == 3
    assert kit.app.handle("mine").get() == 2
    with pytest.raises(InvalidTask, match="have the id twice"):
        group(kit.add.s(1).set(id="twice"), kit.add.s(1).set(id="twice")).submit()
    with pytest.raises(InvalidTask, match="A chain inside of a canvas has an id"):
        group(chain(kit.add.s(1), kit.add.s(2)).set(id="inner")).submit()


def test_generators_are_read_once(kit: Kit) -> None:
    members = group(kit.add.s(number) for number in range(3))
    assert members.submit().get() == [0, 1, 2]
    with pytest.raises(UsageError, match="has been read"):
        members.submit()
    assert kit.add.starmap(iter([(1, 2), (3, 4)])).submit().get() == [3, 7]
    assert kit.keep.chunks(range(5), 2).submit().get() == [[0, 1], [2, 3], [4]]
    with pytest.raises(InvalidTask, match="size of a chunk"):
        kit.keep.chunks(range(5), 0)
    again = kit.add.map([1, 2])
    assert again.submit().get() == again.set(priority=9).submit().get() == again.submit().get() == [1, 2]


def test_links_get_the_value_and_are_no_part_of_the_result(kit: Kit) -> None:
    handle = (group(kit.add.s(1), kit.add.s(2)).link(kit.keep.s()) | kit.add.si(5).link(kit.fail.s())).submit()
    assert handle.get() == 5
    assert kit.ran("keep") == [[1, 2]]
    assert kit.ran("fail") == [5]
    assert (handle.status().total, handle.status().state) == (3, State.SUCCEEDED)
    assert group(kit.add.s(1)).link(kit.keep.s() | kit.keep.s()).submit().get() == [1]
    assert kit.ran("keep") == [[1, 2], [1], [1]]
    assert kit.app.submit(group().link(kit.keep.s())).get() == []
    assert kit.ran("keep")[-1] == []


def test_workflows_pass_values_by_name_in_any_acyclic_graph(kit: Kit) -> None:
    flow = workflow("orders")
    one = flow.add("one", kit.add.s(1))
    both = flow.add("both", group(kit.add.s(2), kit.add.s(3)), after=[one])
    flow.add("sum", kit.add.s(), inputs={"x": one, "y": "late"})
    flow.add("late", kit.add.s(10), after=["both"])
    flow.add("listed", kit.keep.s(), inputs={"what": both})
    flow.add("none", kit.add.map([]), after=[one])
    handle = flow.submit()
    assert handle.get() == {"sum": 11, "listed": [2, 3], "none": []}
    assert handle.status().name == "orders"
    assert kit.ran("add") == [1, 2, 3, 10, 1]
    assert (flow | kit.keep.s()).submit().get() == {"sum": 11, "listed": [2, 3], "none": []}


def test_workflows_refuse_cycles_unknown_nodes_and_names_that_are_taken(kit: Kit) -> None:
    flow = workflow("round")
    flow.add("start", kit.add.s(1))
    flow.add("a", kit.add.s(1), after=["c", "start"])
    flow.add("b", kit.add.s(1), after=["a"])
    flow.add("c", kit.add.s(1), inputs={"y": "b"})
    with pytest.raises(InvalidTask, match="a waits for c waits for b waits for a"):
        flow.submit()
    lost = workflow("lost")
    lost.add("a", kit.add.s(1), after=["nowhere"])
    with pytest.raises(InvalidTask, match="waits for 'nowhere', which is no node"):
        lost.submit()
    with pytest.raises(InvalidTask, match="name of its own"):
        lost.add("a", kit.add.s(1))
    with pytest.raises(InvalidTask, match="give a list"):
        lost.add("b", kit.add.s(1), after="a")
    double = workflow("double")
    double.add("b", kit.add.s(x=1), inputs={"x": double.add("a", kit.add.s(1))})
    with pytest.raises(InvalidArguments, match="'x' from another task and as an argument"):
        double.submit()


def test_members_are_spawned_in_order_and_only_inside_of_a_group(kit: Kit) -> None:
    @kit.app.task(max_retries=0)
    def more(ctx: TaskContext, depth: int) -> int:
        if depth:
            added = ctx.spawn(more.s(depth - 1), group(kit.add.s(10 * depth), chain(kit.add.s(1), kit.add.s(depth))))
            assert [type(each).__name__ for each in added] == ["TaskHandle"] * 3
        return depth

    assert group(more.s(1), kit.add.s(7)).submit().get() == [1, 7, 0, 10, 2]
    assert (group(chain(kit.add.s(2), more.s())) | kit.keep.s()).submit().get()[0] == 2
    handle = group(more.s(2)).submit()
    assert sorted(handle.get()) == [0, 1, 2, 2, 3, 10, 20]
    assert handle.status().total == 7
    with pytest.raises(TaskFailed, match="is no member of a group"):
        more.s(1).submit().get()


def test_only_a_canvas_replaces_a_task_or_is_spawned_by_it(kit: Kit) -> None:
    @kit.app.task(max_retries=0)
    def wrong(ctx: TaskContext, spawns: bool) -> None:
        given: Any = kit.add
        if spawns:
            ctx.spawn(given)
        ctx.replace(given)

    for spawns in (True, False):
        with pytest.raises(TaskFailed, match=r"this is of type Task; write add\.s\(…\)"):
            group(wrong.s(spawns)).submit().get()
    with pytest.raises(InvalidTask, match="inputs of node b is no mapping"):
        workflow("w").add("b", kit.add.s(), inputs=["a"])  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match="give it as text"):
        kit.add.s(1).named(5)  # type: ignore[arg-type]


def test_a_signed_canvas_runs_and_its_tasks_pass_the_middleware() -> None:
    signed = Stem(
        "memory://signed-canvas", signing_keys="k1:hmac-sha256:" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ="
    )
    kit = Kit(signed)
    seen: list[str] = []

    class Seeing(Middleware):
        def enqueue(self, envelope: Envelope) -> Envelope:
            seen.append(envelope.name)
            return msgspec.structs.replace(envelope, meta={**envelope.meta, "seen": True})

    signed.use(Seeing())
    with eager(signed):
        handle = (group(kit.add.s(1), kit.add.s(2)) | kit.keep.s()).submit()
        assert handle.get() == [1, 2]
        assert seen == ["add", "add", "keep"]
        assert {record.name for record in kit.records(handle) if record.meta.get("seen")} == {"add", "keep"}


def test_an_input_that_does_not_fit_or_is_gone_makes_a_dead_letter(kit: Kit) -> None:
    handle = chain(kit.keep.s("text"), kit.add.s()).submit()
    with pytest.raises(TaskFailed, match="Expected `int`, got `str`"):
        handle.get()
    (failure,) = handle.status().failures
    letter = kit.app.store.deadletters.get(failure.id)
    assert letter is not None
    assert letter.reason == "invalid-arguments"

    late = chain(kit.keep.s(1), kit.add.s().set(delay=60)).submit()
    head, _, _ = kit.records(late)
    kit.app.store.results.get = lambda ids, **_: {}  # type: ignore[method-assign]
    kit.world.clock.advance(60)
    del kit.app.store.results.get
    assert head.id
    (failure,) = late.status().failures
    letter = kit.app.store.deadletters.get(failure.id)
    assert letter is not None
    assert letter.reason == "input-missing"


def test_a_canvas_waits_in_the_store_and_is_found_again_by_id(app: Stem) -> None:
    kit = Kit(app)
    handle: CanvasHandle[int] = chain(kit.add.s(1), kit.add.s(2)).named("sums").submit()
    status = app.canvas(handle.id).status()
    assert (status.state, status.total, status.name, status.is_terminal) == (State.QUEUED, 2, "sums", False)
    run_pending(app)
    assert app.canvas(handle.id).get(1) == 3
    assert asyncio.run(_asked(handle)) == 3
    with pytest.raises(TaskNotFound):
        app.canvas("unheard-of").status()
    with pytest.raises(TaskNotFound, match="is the id of a task and not of a canvas"):
        app.canvas(kit.add.enqueue(1).id).status()


async def _asked(handle: CanvasHandle[Any]) -> Any:
    assert (await handle.astatus()).state is State.SUCCEEDED
    assert await handle.arevoke() == []
    assert await handle.aresume() == []
    assert (await handle.await_ended(1)).state is State.SUCCEEDED
    return await handle
