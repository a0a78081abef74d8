"""Whatever a task does to its process, it ends in the right state, and the worker goes on with all its isolates."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from stem.core.lifecycle import State
from stem.worker.supervisor import Worker
from support.background import takes_less_than
from support.until import until
from support.workers.processes import Desk, are_gone, desk, worker_here, worker_process

UNRULY = "support.worker_apps.unruly:app"
ISOLATES = 2


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("isolates")


@pytest.fixture(scope="module")
def worker(place: Path) -> Iterator[Worker]:
    """One for all: each test leaves it whole, or the next one tells."""
    with worker_here(f"sqlite:///{place}/stem.db", "isolates", UNRULY, concurrency=ISOLATES, lease_seconds=5.0) as it:
        yield it


@pytest.fixture
def client(place: Path, worker: Worker) -> Iterator[Desk]:
    """After the test a task in each isolate, all at the same time, answers."""
    with desk(f"sqlite:///{place}/stem.db", "isolates") as opened:
        yield opened
        opened.meet(place, ISOLATES)


@pytest.mark.parametrize("kind", ["MemoryError", "SystemExit", "KeyboardInterrupt", "GeneratorExit", "StopIteration"])
def test_whatever_is_raised_is_a_failure_worth_a_retry(client: Desk, kind: str) -> None:
    task = client.send("raises", kind=kind)
    record = client.ended(task)
    assert record.state is State.FAILED and record.attempt == 1
    assert record.error is not None and (record.error.type, record.error.message) == (kind, "as asked")
    assert client.letter(task).reason == "retries-exhausted"
    assert client.kinds(task) == ["enqueued", "started", "retried", "started", "failed", "dead-lettered"]


def test_an_allocation_beyond_the_limit_is_a_memory_error(client: Desk) -> None:
    record = client.ended(client.send("wants-memory"))
    assert record.error is not None and record.error.type == "MemoryError" and record.error.retryable
    assert (record.state, record.attempt) == (State.FAILED, 1)


@pytest.mark.parametrize(
    ("name", "args", "how"),
    [
        ("exits", {"code": 3}, "ended with exit code 3"),
        ("exits", {"code": 0}, "ended with exit code 0"),
        ("segfaults", {}, "was ended by SIGSEGV"),
        ("signals-itself", {"number": 14}, "was ended by SIGALRM"),
        ("signals-itself", {"number": 9}, "was ended by SIGKILL"),
        ("leaves-a-talker", {"own_session": False, "exit_code": 3}, "ended with exit code 3"),
        ("leaves-a-talker", {"own_session": True, "exit_code": 3}, "ended with exit code 3"),
    ],
)
def test_a_task_that_fells_its_isolate_is_a_crash_loop(client: Desk, name: str, args: dict[str, Any], how: str) -> None:
    """Three deaths, whatever its max_retries; attempts are not spent on them."""
    task = client.send(name, **args)
    record = client.ended(task)
    assert (record.state, record.attempt) == (State.FAILED, 0)
    letter = client.letter(task)
    assert (letter.reason, letter.meta["deaths"]) == ("crash-loop", 3)
    assert letter.error is not None
    assert (letter.error.type, letter.error.message) == ("IsolateDied", f"The process that ran the task {how}.")
    requeued = [event for event in client.events(task) if event.kind == "requeued"]
    assert [event.data["reason"] for event in requeued] == [letter.error.message] * 2


@pytest.mark.parametrize(
    ("name", "args"),
    [
        *(("raises", {"kind": kind}) for kind in ("MemoryError", "SystemExit", "KeyboardInterrupt")),
        ("exits", {"code": 3}),
        ("segfaults", {}),
        ("closes-descriptors", {"first": 0, "seconds": 0.0}),
        ("forks-and-spins", {}),
        ("starts-threads", {"daemon": False}),
        ("prints", {"lines": 10, "width": 1_000_000}),
    ],
)
def test_the_pool_is_whole_again_within_two_seconds(client: Desk, place: Path, name: str, args: dict[str, Any]) -> None:
    def seconds_to_be_whole() -> float:
        client.ended(client.send(name, **args))
        began = time.monotonic()
        client.meet(place, ISOLATES)
        return time.monotonic() - began

    takes_less_than(2.0, seconds_to_be_whole)


def test_a_crash_loop_counts_apart_from_retries(durable_url: str, namespace: str, tmp_path: Path) -> None:
    with desk(durable_url, namespace) as client, worker_here(durable_url, namespace, UNRULY, concurrency=ISOLATES):
        task = client.send("exits", {"max_retries": 0}, code=3)
        assert client.ended(task).state is State.FAILED
        letter = client.letter(task)
        assert (letter.reason, letter.attempt, letter.meta["deaths"]) == ("crash-loop", 0, 3)
        client.meet(tmp_path, ISOLATES)


@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_a_task_that_closes_all_descriptors_is_a_crash_loop(client: Desk, first: int, seconds: float) -> None:
    task = client.send("closes-descriptors", first=first, seconds=seconds)
    assert client.ended(task).state is State.FAILED
    assert client.letter(task).reason == "crash-loop"


def test_a_task_that_takes_over_the_line_is_a_crash_loop(client: Desk, tmp_path: Path) -> None:
    task = client.send("takes-over-descriptors", directory=str(tmp_path))
    assert client.ended(task).state is State.FAILED
    assert client.letter(task).reason == "crash-loop"


def test_garbage_on_the_line_harms_only_who_wrote_it(client: Desk) -> None:
    task = client.send("speaks-out-of-turn")
    assert client.ended(task).state is State.FAILED
    assert client.letter(task).reason == "crash-loop"


def test_a_forked_child_that_comes_back_speaks_for_nobody(client: Desk, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    task = client.send("forks", file=str(marks))
    assert client.value(task) == 0
    until(lambda: sorted(marks.read_text().split()) == ["child", "parent"])
    assert client.kinds(task).count("succeeded") == 1


def test_a_forked_child_that_comes_back_does_not_lift_the_limits(client: Desk) -> None:
    record = client.ended(client.send("forks-and-spins"))
    assert record.error is not None and record.error.type == "HardTimeLimitExceeded"


@pytest.mark.parametrize("daemon", [True, False])
def test_threads_that_a_task_leaves_behind_keep_nothing_up(client: Desk, daemon: bool) -> None:
    assert client.call("starts-threads", daemon=daemon) >= 4


def test_a_thread_that_exits_ends_itself_alone(client: Desk) -> None:
    assert client.call("exits-in-a-thread") == "left"


@pytest.mark.parametrize(("lines", "width"), [(10, 1_000_000), (10_000, 1_000), (200_000, 50)])
def test_a_task_may_print_ten_megabytes(client: Desk, lines: int, width: int) -> None:
    assert client.call("prints", lines=lines, width=width) == 10_000_000


def test_a_line_may_have_no_end(client: Desk) -> None:
    assert client.call("prints-without-end-of-line", count=10_000_000) == 10_000_000


def test_a_subprocess_may_print_ten_megabytes(client: Desk) -> None:
    assert client.call("subprocess-prints", count=10_000_000) == 0


def test_a_child_left_behind_that_talks_on_does_not_keep_the_worker_from_its_work(client: Desk, tmp_path: Path) -> None:
    talker = psutil.Process(client.call("leaves-a-talker", own_session=False, exit_code=None))
    try:
        client.meet(tmp_path, ISOLATES)
    finally:
        talker.kill()


@pytest.mark.parametrize("what", ["an object", "much", "circular", "nul", "no text", "no number"])
def test_a_value_that_cannot_be_kept_is_not_worth_a_retry(client: Desk, what: str) -> None:
    task = client.send("returns", what=what)
    record = client.ended(task)
    assert (record.state, record.attempt) == (State.FAILED, 0)
    assert record.error is not None and record.error.type == "UnserialisableResult"
    assert client.letter(task).reason == "not-retryable"


def test_recursion_without_end_is_a_failure_like_any(client: Desk) -> None:
    task = client.send("recurses")
    record = client.ended(task)
    assert (record.state, record.attempt) == (State.FAILED, 1)
    assert record.error is not None and record.error.type == "RecursionError"


def test_signal_handlers_of_a_task_do_not_harm_the_worker(client: Desk) -> None:
    assert "SIGTERM" in client.call("ignores-signals")


def test_a_task_may_lose_its_directory(client: Desk, tmp_path: Path) -> None:
    assert client.call("loses-its-directory", directory=str(tmp_path / "gone")) == "lost"


@pytest.mark.parametrize("name", ["replaces-its-streams", "closes-its-streams", "closes-its-output"])
def test_a_task_may_lose_its_streams(client: Desk, name: str) -> None:
    assert client.call(name) in ("replaced", "closed")


def test_a_process_that_is_killed_takes_its_isolates_along(tmp_path: Path, namespace: str) -> None:
    url = f"sqlite:///{tmp_path}/other.db"
    with worker_process(url, namespace, UNRULY, tmp_path, concurrency=ISOLATES) as doomed:
        family = until(lambda: found if len(found := doomed.descendants()) == ISOLATES + 2 else None)
        doomed.kill()
        until(lambda: are_gone(family))
