"""Cases from the field, 17 to 21, 31 and 34: canvases and real workers that are killed, repeated and revoked."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stem import State, Stem, TaskCancelled, TaskFailed, chain, chord, group
from stem.core.delivery import Delivery
from stem.testing import run, run_pending
from support.until import until
from support.worker_apps.composed import Tasks
from support.workers.processes import environment, worker_here, worker_process

COMPOSED = "support.worker_apps.composed:app"
SECONDS = 30.0


@pytest.fixture
def app(durable_url: str, namespace: str) -> Iterator[Stem]:
    with Stem(durable_url, namespace=namespace, retry=0.02) as opened:
        yield opened


@pytest.fixture
def tasks(app: Stem) -> Tasks:
    return Tasks(app)


@pytest.fixture
def worker(durable_url: str, namespace: str, app: Stem) -> Iterator[None]:
    with worker_here(durable_url, namespace, COMPOSED, concurrency=2, grace_seconds=0.5):
        yield


def marks(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def claimed_twice(app: Stem) -> tuple[Delivery, Delivery]:
    """The same task for two workers: the lease of the first has run out."""
    (first,) = app.store.broker.claim(["default"], limit=1, lease_seconds=0.001)
    until(lambda: app.store.broker.reclaim().returned == [first.lease.id])
    (second,) = app.store.broker.claim(["default"], limit=1, lease_seconds=60)
    assert second.lease.id == first.lease.id
    return first, second


def test_case_17_a_member_delivered_twice_is_counted_once(app: Stem, tasks: Tasks, tmp_path: Path) -> None:
    file = tmp_path / "marks"
    handle = chord([tasks.add.s(1), tasks.add.s(2)], tasks.keep.s(file=str(file))).submit()
    for delivery in claimed_twice(app):
        run(app, delivery)
    assert handle.status().state is State.RUNNING
    run_pending(app)
    assert handle.get(SECONDS) == [1, 2]
    assert marks(file) == ["kept"]


def test_case_17_a_predecessor_of_a_chord_delivered_twice_has_one_chord(
    app: Stem, tasks: Tasks, tmp_path: Path
) -> None:
    file = tmp_path / "marks"
    handle = (tasks.add.s(1) | chord([tasks.add.s(1), tasks.add.s(2)], tasks.keep.s(file=str(file)))).submit()
    for delivery in reversed(claimed_twice(app)):
        run(app, delivery)
    run_pending(app)
    assert handle.get(SECONDS) == [2, 3]
    assert marks(file) == ["kept"]


def test_case_17_a_replaced_task_delivered_twice_is_replaced_once(app: Stem, tasks: Tasks) -> None:
    handle = (tasks.spread.s(3) | tasks.keep.s()).submit()
    for delivery in reversed(claimed_twice(app)):
        run(app, delivery)
    assert run_pending(app) == 4
    assert handle.get(SECONDS) == [0, 1, 2]


def test_case_18_a_crash_after_the_success_is_stored_runs_the_next_link_once(
    app: Stem, tasks: Tasks, durable_url: str, namespace: str, tmp_path: Path
) -> None:
    file = tmp_path / "marks"
    links = [tasks.keep.s(file=str(file)) for _ in range(3)]
    handle = chain(tasks.add.s(1), tasks.hold.si(str(file), str(tmp_path / "go")), *links).submit()
    with worker_process(durable_url, namespace, COMPOSED, tmp_path, concurrency=1, lease_seconds=3.0) as first:
        until(lambda: "held" in marks(file), seconds=SECONDS)
        first.kill()
    (tmp_path / "go").touch()
    with worker_here(durable_url, namespace, COMPOSED, concurrency=1, reclaim_seconds=0.25):
        assert handle.get(SECONDS) == "let go"
    assert marks(file).count("kept") == 3


@pytest.mark.usefixtures("worker")
def test_case_19_the_callback_sees_the_final_value_of_a_member_that_retried_or_caught_its_limit(tasks: Tasks) -> None:
    handle = chord([tasks.flaky.s(3), tasks.add.s(1), tasks.patient.s()], tasks.keep.s()).submit()
    assert handle.get(SECONDS) == [3, 1, "in time"]


@pytest.mark.usefixtures("worker")
def test_case_20_a_member_whose_process_is_killed_for_good_ends_the_chord(tasks: Tasks, tmp_path: Path) -> None:
    file = tmp_path / "marks"
    canvas = chord([tasks.deadly.s(1), tasks.add.s(1)], tasks.keep.s()).link_error(tasks.note_error.s(str(file)))
    handle = canvas.submit()
    with pytest.raises(TaskFailed, match="IsolateDied"):
        handle.get(SECONDS)
    (failure,) = handle.status().failures
    until(lambda: marks(file) == [failure.id], seconds=SECONDS)


@pytest.mark.usefixtures("worker")
def test_case_21_a_member_that_is_revoked_ends_the_chord(app: Stem, tasks: Tasks, tmp_path: Path) -> None:
    file = tmp_path / "marks"
    members = {
        "waiting": tasks.add.s(1).set(id="waiting", delay=3600),
        "running": tasks.hold.s(str(file), str(tmp_path / "never")).set(id="running"),
        "unknown": tasks.add.s(1).set(id="unknown", queue="nobody"),
    }
    for task_id, member in members.items():
        handle = chord([tasks.add.s(1), member], tasks.keep.s()).submit()
        if task_id == "running":
            until(lambda: marks(file) == ["held"], seconds=SECONDS)
        app.control.revoke(task_id, terminate=True, reason="no longer")
        with pytest.raises(TaskCancelled):
            handle.get(SECONDS)


@pytest.mark.usefixtures("worker")
def test_case_31_the_whole_is_revoked_with_its_running_members(tasks: Tasks, tmp_path: Path) -> None:
    file, kept = tmp_path / "marks", tmp_path / "kept"
    holding = [tasks.hold.s(str(file), str(tmp_path / "never")) for _ in range(2)]
    handle = chord([*holding, tasks.add.s(1).set(queue="nobody")], tasks.keep.s(file=str(kept))).submit()
    until(lambda: marks(file) == ["held", "held"], seconds=SECONDS)
    assert len(handle.revoke(terminate=True)) == 4
    with pytest.raises(TaskCancelled):
        handle.get(SECONDS)
    until(lambda: handle.status().counts == {State.CANCELLED: 4}, seconds=SECONDS)
    assert marks(kept) == []


@pytest.mark.usefixtures("worker")
def test_case_33_a_mended_canvas_is_waited_for_until_it_has_ended(tasks: Tasks, tmp_path: Path) -> None:
    file, mended = tmp_path / "marks", tmp_path / "mended"
    header = [tasks.needs.s(str(mended)), tasks.add.s(1)]
    handle = chain(group(header), tasks.keep.s(file=str(file)), tasks.keep.s(file=str(file))).submit()
    with pytest.raises(TaskFailed, match="not mended"):
        handle.get(SECONDS)
    mended.touch()
    assert len(handle.resume()) == 1
    assert handle.get(SECONDS) == ["mended", 1]
    assert marks(file) == ["kept", "kept"]


SUBMITTER = """
import os, sys
from stem import Stem, group
from support.worker_apps.composed import Tasks
app = Stem()
tasks = Tasks(app)
def members(count, pause):
    for number in range(count):
        if number == pause:
            print("half", flush=True)
            sys.stdin.read()
        yield tasks.add.si(number)
count, pause = int(sys.argv[1]), int(sys.argv[2])
handle = (group(members(count, pause)) | tasks.keep.s()).submit()
print(handle.id, flush=True)
os._exit(9)
"""


def test_case_34_a_submitter_killed_while_submitting_leaves_nothing(
    app: Stem, durable_url: str, namespace: str
) -> None:
    submitter = submitting(durable_url, namespace, 16_000, 15_500)
    try:
        assert submitter.stdout is not None
        assert submitter.stdout.readline().strip() == "half"
    finally:
        submitter.kill()
        submitter.communicate()
    assert app.store.broker.depth() == {}
    assert run_pending(app) == 0


def test_case_34_everything_runs_though_the_submitter_is_killed_right_after(
    app: Stem, tasks: Tasks, durable_url: str, namespace: str
) -> None:
    canvas_id = submitting(durable_url, namespace, 20, -1).communicate(timeout=SECONDS)[0].strip()
    run_pending(app)
    assert app.canvas(canvas_id).get(SECONDS) == list(range(20))


def submitting(url: str, namespace: str, count: int, pause: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", SUBMITTER, str(count), str(pause)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment(url, namespace), stdin=pipe, stdout=pipe, text=True)


@pytest.mark.usefixtures("worker")
def test_values_pass_through_isolates_coroutines_and_inline_threads(tasks: Tasks) -> None:
    large = "x" * 300_000
    canvas = chain(tasks.keep.s(), tasks.akeep.s(), tasks.inline_keep.s(), group(tasks.keep.s(), tasks.akeep.s()))
    assert canvas.submit(large).get(SECONDS) == [large, large]
    assert asyncio.run(_awaited(tasks)) == [1, 2, 3]


async def _awaited(tasks: Tasks) -> list[int]:
    handle = await group(tasks.add.s(number) for number in (1, 2, 3)).asubmit()
    assert (await handle.astatus()).total == 3
    return await handle


def test_case_33_a_group_that_grows_after_a_member_has_failed_is_mended_as_a_whole(
    app: Stem, tasks: Tasks, tmp_path: Path
) -> None:
    file, mended = tmp_path / "marks", tmp_path / "mended"
    header = [tasks.needs.s(str(mended)), tasks.more.s(10), tasks.add.s(1)]
    handle = chord(header, tasks.keep.s(file=str(file))).submit()
    assert run_pending(app) == 5
    status = handle.status()
    assert (status.state, status.counts) == (State.FAILED, {State.FAILED: 1, State.SUCCEEDED: 4, State.CANCELLED: 1})
    mended.touch()
    assert len(handle.resume()) == 1
    assert run_pending(app) == 2
    assert (handle.get(SECONDS), marks(file)) == (["mended", 10, 1, 11, 12], ["kept"])


@pytest.mark.usefixtures("worker")
def test_tasks_replace_themselves_spawn_members_and_end_their_chain_in_isolates(tasks: Tasks) -> None:
    assert chain(tasks.spread.s(3), tasks.keep.s()).submit().get(SECONDS) == [0, 1, 2]
    assert chain(tasks.spread_async.s(3), tasks.add.s(1)).submit().get(SECONDS) == 5
    assert tasks.spread.enqueue(2).get(SECONDS) == [0, 1]
    assert chord([tasks.more.s(10), tasks.add.s(1)], tasks.keep.s()).submit().get(SECONDS) == [10, 1, 11, 12]
    ended = chain(tasks.add.s(1), tasks.end.s(), tasks.akeep.s(), tasks.keep.si(1)).submit()
    assert ended.get(SECONDS) == {"ended": 1}
    assert ended.status().counts == {State.SUCCEEDED: 2, State.CANCELLED: 2}
