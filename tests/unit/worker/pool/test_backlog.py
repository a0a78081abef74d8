"""Waiting tasks go to the isolate that holds the fewest, in order, and to none beyond its capacity."""

import selectors
from collections.abc import Iterator

import pytest

from stem.contracts.task_logs import LogLine
from stem.worker.fork.client import ForkServerClient
from stem.worker.isolate.wire import Message
from stem.worker.pool.backlog import Backlog
from stem.worker.pool.isolate_state import AHEAD_MOST, IsolateState, RunTimes
from stem.worker.pool.isolates import Isolates
from unit.worker.pool.isolate_states import MakeIsolate, new_task


class Nobody:
    """A listener for isolates that report nothing here."""

    def message_received(self, isolate: IsolateState, word: Message) -> None: ...

    def isolate_exited(self, isolate: IsolateState, exit_code: int) -> None: ...

    def isolate_recycled(self, isolate: IsolateState, reason: str) -> None: ...

    def isolates_failed(self, sentence: str) -> None: ...

    def output_read(self, lines: list[LogLine]) -> None: ...


@pytest.fixture
def isolates() -> Iterator[Isolates]:
    with selectors.DefaultSelector() as selector:
        yield Isolates(Nobody(), selector, no_client, concurrency=2, async_concurrency=3, inline_concurrency=3)


def no_client() -> ForkServerClient:
    raise AssertionError("no isolate is started here")


def quick() -> RunTimes:
    """All known to be quick, by these names."""
    run_times = RunTimes()
    for name in ("it", "other"):
        run_times.add(name, 0.0)
    return run_times


def install(isolates: Isolates, *by_token: IsolateState) -> None:
    isolates.by_token.update((isolate.handle.token, isolate) for isolate in by_token)


def test_alike_ones_go_by_turns_to_whoever_holds_the_fewest(isolates: Isolates, make_isolate: MakeIsolate) -> None:
    (one, first), (two, second) = make_isolate(), make_isolate()
    install(isolates, one, two)
    backlog, tasks = Backlog(isolates, quick()), [new_task() for _ in range(5)]
    backlog.put(tasks)
    assert backlog.hand_out()
    assert [first.receive(), second.receive(), first.receive(), second.receive(), first.receive()] == [
        task.number for task in tasks
    ]
    late = [new_task() for _ in range(2)]
    two.assigned.clear()
    backlog.put(late)
    assert backlog.hand_out()
    assert list(two.assigned.values()) == late
    assert not backlog.hand_out()


def test_tasks_that_no_isolate_may_take_wait_in_order(isolates: Isolates, make_isolate: MakeIsolate) -> None:
    (one, _), (last, _) = make_isolate(), make_isolate(max_tasks=2)
    install(isolates, one, last)
    backlog, tasks = Backlog(isolates, quick()), [new_task(name=name) for name in ("it", "other") for _ in range(80)]
    backlog.put(tasks)
    assert backlog.hand_out()
    assert len(one.assigned) == 1 + AHEAD_MOST
    assert len(last.assigned) == 2
    assert backlog.first is tasks[3 + AHEAD_MOST]
    assert backlog.take_isolated() == tasks[3 + AHEAD_MOST :]


def test_one_of_an_unknown_pace_gets_an_isolate_of_its_own(isolates: Isolates, make_isolate: MakeIsolate) -> None:
    (one, _), (two, _) = make_isolate(), make_isolate()
    install(isolates, one, two)
    backlog, tasks = Backlog(isolates, quick()), [new_task(name=name) for name in ("it", "new", "new", "it")]
    backlog.put(tasks)
    backlog.hand_out()
    assert list(one.assigned.values()) == tasks[:1]
    assert list(two.assigned.values()) == tasks[1:2]
    assert backlog.first is tasks[2]


def test_coroutines_share_an_isolate_and_what_came_between_waits_for_another(
    isolates: Isolates, make_isolate: MakeIsolate
) -> None:
    (one, _), (two, _) = make_isolate(slots=3), make_isolate(slots=3)
    install(isolates, one, two)
    backlog = Backlog(isolates, quick())
    tasks = [task for _ in range(2) for task in (new_task(name="other", is_async=True), new_task())]
    backlog.put(tasks)
    backlog.hand_out()
    assert [list(isolate.assigned.values()) for isolate in (one, two)] == [[tasks[0], tasks[2]], [tasks[1], tasks[3]]]


def test_tasks_put_back_go_ahead_of_tasks_claimed_later(isolates: Isolates) -> None:
    backlog, early, late = Backlog(isolates, quick()), [new_task(), new_task()], [new_task(), new_task()]
    backlog.put(late)
    backlog.put_back(early)
    assert backlog.take_out(lambda task: task is late[0]) == late[:1]
    assert backlog.take_isolated() == [*early, late[1]]
