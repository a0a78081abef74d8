"""Revoked is revoked: while it waits, while it runs, when it comes back, and with no worker there to be told."""

import os
import signal
from pathlib import Path

import pytest

from acceptance.lab import Lab, is_alive
from stem.core.lifecycle import State
from stem.core.record import TaskRecord
from support.until import until


def revoked(lab: Lab, task_id: str) -> TaskRecord:
    record = lab.desk.ended(task_id)
    assert record.state is State.CANCELLED, record
    return record


def test_a_revoked_task_is_stopped_or_never_starts_even_after_a_restart(any_lab: Lab) -> None:
    worker = any_lab.start("w1", "--concurrency", "1")
    held = any_lab.desk.send("hold")
    any_lab.began("hold")
    waiting, delayed = (
        any_lab.desk.send("quick", mark="waiting"),
        any_lab.desk.send("quick", {"delay": 3}, mark="later"),
    )

    told = any_lab.answers("revoke", held, "--task", waiting, "--task", delayed, "--terminate", "--reason", "mistaken")
    (reply,) = told["replies"]
    assert reply["payload"]["tasks"][held] == "terminating"
    assert set(reply["payload"]["tasks"]) == {held, waiting, delayed}
    assert {(each["taskId"], each["reason"], each["terminate"]) for each in told["revoked"]} == {
        (each, "mistaken", True) for each in (held, waiting, delayed)
    }
    error = revoked(any_lab, held).error
    assert error is not None and "mistaken" in error.message
    revoked(any_lab, waiting)
    any_lab.desk.value(any_lab.desk.send("quick", mark="after"))  # the worker goes on

    assert worker.end() == 0
    assert set(any_lab.desk.app.store.revokes.get([held, waiting, delayed])) == {held, waiting, delayed}
    any_lab.start("w2", "--concurrency", "1")
    revoked(any_lab, delayed)
    assert {mark for mark, _ in any_lab.runs} == {"hold", "after"}


def test_a_revoke_holds_with_no_worker_there(any_lab: Lab) -> None:
    waiting, other = any_lab.desk.send("quick", mark="waiting"), any_lab.desk.send("quick", mark="other")
    assert "No workers are running; the revocation is stored" in any_lab.shell.out("worker", "revoke", waiting)
    any_lab.start()
    any_lab.desk.value(other)
    revoked(any_lab, waiting)
    assert [mark for mark, _ in any_lab.runs] == ["other"]


def test_a_revoked_task_that_waits_is_cancelled_at_once_and_holds_its_key_no_longer(any_lab: Lab) -> None:
    once = {"unique": "until_done", "delay": 3600.0}
    first = any_lab.desk.send("quick", once, mark="once")
    assert any_lab.desk.send("quick", once, mark="once") == first
    told = any_lab.shell.json("worker", "revoke", first, "--reason", "mistaken")
    assert told["cancelled"] == [first]
    error = any_lab.desk.record(first).error
    assert error is not None and error.message == "mistaken"
    second = any_lab.desk.send("quick", once, mark="once")
    assert second != first
    assert f"Cancelled before they started: {second}" in any_lab.shell.out("worker", "revoke", second)
    third = any_lab.desk.app.handle(any_lab.desk.send("quick", once, mark="once"))
    assert third.revoke().cancelled == [third.id]
    third = any_lab.desk.app.handle(any_lab.desk.send("quick", {"unique": "until_done"}, mark="once"))
    any_lab.start()
    assert third.wait(30).state is State.SUCCEEDED


def test_a_copy_that_comes_back_from_a_dead_worker_does_not_run(any_lab: Lab) -> None:
    worker = any_lab.start("w1", "--lease", "1s")
    held = any_lab.desk.send("hold")
    any_lab.began("hold")
    worker.process.kill()
    worker.process.wait()
    runs = any_lab.times("hold")  # on a machine that stood still its lease may have run out before
    any_lab.run("revoke", held, "--timeout", "200ms")  # nobody answers, and it holds all the same
    any_lab.start("w2", "--lease", "1s")
    revoked(any_lab, held)
    assert any_lab.times("hold") == runs


def test_without_terminate_what_runs_goes_on(lab: Lab) -> None:
    lab.start()
    held = lab.desk.send("hold")
    lab.began("hold")
    assert lab.told("revoke", held)["tasks"] == {held: "running"}
    lab.let_go("hold")
    lab.desk.value(held)


@pytest.mark.parametrize(("task", "mark"), [("tidy", "tidy"), ("hold-inline", "inline")])
def test_a_checkpoint_raises_task_revoked(lab: Lab, task: str, mark: str) -> None:
    lab.start()
    id = lab.desk.send(task)
    lab.began(mark)
    assert lab.told("revoke", id, "--terminate")["tasks"] == {id: "terminating"}
    revoked(lab, id)
    if task == "tidy":
        assert (lab.shell.directory / "tidied").read_text() == "TaskRevoked"


def test_one_that_will_not_stop_is_killed_with_its_children_and_nobody_else(lab: Lab) -> None:
    lab.start("w1", "--concurrency", "2", "--grace", "1s")
    other, stubborn = lab.desk.send("hold"), lab.desk.send("stubborn")
    lab.began("hold", "stubborn")
    child = int((lab.shell.directory / "child").read_text())
    assert lab.told("revoke", stubborn, "--terminate")["tasks"] == {stubborn: "terminating"}
    revoked(lab, stubborn)
    until(lambda: not is_alive(child))
    lab.let_go("hold")
    assert lab.desk.value(other) == lab.began("hold")
    assert lab.times("hold") == lab.times("stubborn") == 1


def test_of_coroutines_that_share_an_isolate_only_the_revoked_one_ends(lab: Lab) -> None:
    lab.start("w1", "--concurrency", "1", "--grace", "1s")
    one, other = lab.desk.send("hold-async", mark="one"), lab.desk.send("hold-async", mark="other")
    pid = lab.began("one", "other")
    assert lab.told("revoke", one, "--terminate")["tasks"] == {one: "terminating"}
    revoked(lab, one)
    lab.let_go("other")
    assert lab.desk.value(other) == pid
    assert lab.runs == [(mark, pid) for mark, _ in lab.runs] and len(lab.runs) == 2


def test_sigkill_does_not_wait_for_a_grace(lab: Lab) -> None:
    lab.start("w1", "--grace", "60s")
    stubborn = lab.desk.send("stubborn")
    pid = lab.began("stubborn")
    lab.told("revoke", stubborn, "--terminate", "--signal", "SIGKILL")
    revoked(lab, stubborn)
    until(lambda: not is_alive(pid))


@pytest.mark.parametrize("where", ["sqlite:///{}/marks.db", "file://{}/revokes.stem", "{}/revokes.stem"])
def test_revokes_can_be_kept_in_a_store_of_their_own(lab: Lab, tmp_path: Path, where: str) -> None:
    apart = lab.shell.at(STEM_REVOKE_STORE_URL=where.format(tmp_path))
    id = lab.desk.send("quick", mark="waiting")
    assert "the revocation is stored" in apart.out("worker", "revoke", id)
    lab.start(shell=apart)
    revoked(lab, id)
    assert lab.runs == [] and lab.desk.app.store.revokes.get([id]) == {}


def test_revokes_are_kept_with_the_results_where_those_live_apart(lab: Lab, tmp_path: Path) -> None:
    apart = lab.shell.at(STEM_RESULT_BACKEND_URL=f"sqlite:///{tmp_path}/results.db")
    id = apart.out("enqueue", "quick", "--arg", "mark=waiting")
    assert "the revocation is stored" in apart.out("worker", "revoke", id)
    lab.start(shell=apart)
    until(lambda: apart.json("task", "show", id)["status"] == "cancelled", seconds=30)
    assert lab.runs == [] and lab.desk.app.store.revokes.get([id]) == {}


def test_thousands_are_revoked_by_one_command(lab: Lab) -> None:
    lab.start()
    ids = [f"task-{number:030}" for number in range(5000)]
    tasks = lab.told("revoke", *ids, "--reason", "x" * 50, "--unknown-ok")["tasks"]
    assert set(tasks) == set(ids)
    assert len(lab.desk.app.store.revokes.get(ids)) == 5000
    cache = lab.told("inspect", "--revoked")["revoked"]
    assert len(cache) == 1000 and set(cache) <= set(ids)


def test_a_revoke_that_expires_is_forgotten(lab: Lab) -> None:
    lab.shell.out("worker", "revoke", "passing", "--expires", "1ms", "--unknown-ok")
    lab.shell.out("worker", "revoke", "lasting", "--expires", "1h", "--unknown-ok")
    assert set(lab.desk.app.store.revokes.get(["passing", "lasting"])) == {"lasting"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Name at least one task"),
        (("not an id",), "Task id"),
        (("fine", "stem:pause:default"), "is a paused queue and no task"),
        (("fine", "--signal", "SIGSTOP"), "--signal"),
    ],
)
def test_a_revoke_with_impossible_options_is_refused_and_nothing_is_written(
    lab: Lab, words: tuple[str, ...], sentence: str
) -> None:
    assert sentence in lab.shell.refusal("worker", "revoke", *words, code=64)
    assert lab.desk.app.store.revokes.version() == 0


def test_a_frozen_worker_is_told_of_and_heeds_the_revoke_when_it_goes_on(lab: Lab) -> None:
    worker = lab.start("w1", "--lease", "60s")
    held = lab.desk.send("hold")
    lab.began("hold")
    os.kill(worker.process.pid, signal.SIGSTOP)
    assert lab.replies("revoke", held, "--terminate", "--timeout", "500ms", code=70)["w1"]["status"] == "timeout"
    os.kill(worker.process.pid, signal.SIGCONT)
    revoked(lab, held)
