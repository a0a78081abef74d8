"""What tasks print and log is logged with their id; hooks around them run in the isolate, and never cost a delivery."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stem.core.lifecycle import State
from stem.worker.supervisor import Worker
from support.until import until
from support.workers.processes import Desk, desk, worker_here

TALKING = "support.worker_apps.talking:app"
ISOLATES = 2


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("output")


@pytest.fixture(scope="module")
def worker(place: Path) -> Iterator[Worker]:
    with worker_here(f"sqlite:///{place}/stem.db", "output", TALKING, concurrency=ISOLATES) as it:
        yield it


@pytest.fixture
def client(place: Path, worker: Worker) -> Iterator[Desk]:
    """After the test a task in each isolate, all at the same time, answers."""
    with desk(f"sqlite:///{place}/stem.db", "output") as opened:
        yield opened
        opened.meet(place, ISOLATES)


class Heard:
    """The lines of tasks, each with the id it was logged with."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    @property
    def lines(self) -> list[tuple[str, str]]:
        found = [record for record in list(self._caplog.records) if record.name.startswith("stem.task")]
        return [(getattr(record, "task_id", ""), record.getMessage()) for record in found]

    def of(self, text: str, count: int) -> list[tuple[str, str]]:
        """The lines with this text, once there are so many."""
        until(lambda: len([line for _, line in self.lines if text in line]) >= count)
        return [(task, line) for task, line in self.lines if text in line]


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Heard:
    caplog.set_level("INFO", logger="stem.task")
    return Heard(caplog)


def test_lines_that_a_task_prints_and_logs_carry_its_id(client: Desk, heard: Heard) -> None:
    task = client.send("speaks", text="<1>")
    assert client.value(task) != os.getpid()
    lines = heard.of("<1>", 5)
    assert {each for each, _ in lines} == {task}
    said = [line for _, line in lines]
    assert "printed <1>" in said and "to stderr <1>" in said and "half a line <1>" in "\n".join(said)
    assert any("logged <1>" in line and "their.module" in line for line in said)
    assert any("by the context <1>" in line for line in said)


def test_lines_of_many_tasks_are_told_apart(client: Desk, heard: Heard) -> None:
    """Also of coroutines that take turns on one loop, and of threads of the lane."""
    names = ["speaks-async", "speaks-inline", "speaks-around"]
    sent = {f"<{name}-{n}>": client.send(name, text=f"<{name}-{n}>") for name in names[:2] for n in range(20)}
    for task in sent.values():
        client.value(task)
    for text, task in sent.items():
        lines = heard.of(text, 3 if "async" in text else 1)
        assert {each for each, _ in lines} == {task}, lines


@pytest.mark.parametrize("name", ["speaks-below", "speaks-around"])
def test_output_past_python_carries_the_id_of_the_task_that_ran(client: Desk, heard: Heard, name: str) -> None:
    """A subprocess, or C code: it reaches the same pipe without a mark."""
    sent = {f"<{name}-{n}>": client.send(name, text=f"<{name}-{n}>") for n in range(40)}
    for task in sent.values():
        client.value(task)
    for text, task in sent.items():
        lines = heard.of(text, 1)
        assert {each for each, _ in lines} == {task}, lines


def test_last_words_are_heard(client: Desk, heard: Heard) -> None:
    task = client.send("last-words", text="<last>")
    assert client.ended(task).state is State.FAILED
    lines = heard.of("<last>", 6)
    assert lines == [(task, "last words <last>"), (task, "last breath <last>")] * 3


# Middleware


def diary(path: Path) -> tuple[list[str], set[str]]:
    """What the hooks wrote down, and in which processes."""
    entries = [line.split(":") for line in path.read_text().split()]
    return [what for what, _ in entries], {pid for _, pid in entries}


def test_hooks_run_in_order_in_the_isolate(client: Desk, tmp_path: Path) -> None:
    client.value(client.send("who", {"headers": {"diary": str(tmp_path / "diary")}}))
    entries, pids = diary(tmp_path / "diary")
    assert entries == [
        *("outer.consume", "inner.consume", "outer.enter", "inner.enter", "inner.leave", "outer.leave"),
        *("inner.settle(Done)", "outer.settle(Done)"),
    ]
    assert len(pids) == 1 and str(os.getpid()) not in pids


def test_hooks_hear_of_errors(client: Desk, tmp_path: Path) -> None:
    client.ended(client.send("fails", {"headers": {"diary": str(tmp_path / "diary")}, "max_retries": 0}))
    entries, _ = diary(tmp_path / "diary")
    assert entries[-4:] == [
        *("inner.error(ValueError)", "outer.error(ValueError)", "inner.settle(Dead)", "outer.settle(Dead)"),
    ]


@pytest.mark.parametrize("hook", ["consume", "enter", "leave", "settle"])
@pytest.mark.parametrize("kind", ["RuntimeError", "SystemExit", "KeyboardInterrupt"])
def test_a_hook_that_raises_never_loses_the_delivery(client: Desk, hook: str, kind: str) -> None:
    """An Exception is as if the hook had not been there; with anything worse the task still comes to an end of its own."""
    task = client.send("who", {"headers": {"failing-hook": hook, "failing-with": kind}})
    record = client.ended(task)
    if kind == "RuntimeError":
        assert (record.state, record.attempt) == (State.SUCCEEDED, 0)
    else:
        assert record.is_terminal
        assert client.kinds(task)[-1] in ("succeeded", "dead-lettered")


def test_an_isolate_that_falls_over_a_hook_says_why(client: Desk, heard: Heard) -> None:
    task = client.send("who", {"headers": {"failing-hook": "settle", "failing-with": "KeyboardInterrupt"}})
    assert client.ended(task).state is State.FAILED
    assert client.letter(task).reason == "crash-loop"
    until(lambda: (task, "KeyboardInterrupt: a hook that fails") in heard.lines)


@pytest.mark.parametrize("kind", ["RuntimeError", "SystemExit"])
def test_a_hook_that_fails_over_an_error_leaves_the_error_as_it_is(client: Desk, kind: str) -> None:
    record = client.ended(client.send("fails", {"headers": {"failing-hook": "error", "failing-with": kind}}))
    assert (record.state, record.attempt) == (State.FAILED, 1)
    assert record.error is not None and record.error.type == "ValueError"
