"""A paused queue starts nothing, on all workers or on those named; others go on; restarts remember it."""

import subprocess

from acceptance.lab import Lab
from acceptance.shell import STEM
from stem.core.delivery import Depth
from stem.core.lifecycle import EventKind, State
from stem.core.pause import pause_id
from support.stores.calls import all_events
from support.until import until


def depth(lab: Lab, queue: str = "default") -> Depth:
    return lab.desk.app.store.broker.depth([queue])[queue]


def test_nothing_of_a_paused_queue_starts_until_it_is_resumed_also_after_a_restart(any_lab: Lab) -> None:
    worker = any_lab.start("w1", "--concurrency", "1")
    held = any_lab.desk.send("hold")
    any_lab.began("hold")
    waiting = [any_lab.desk.send("quick", mark=f"q{number}") for number in range(5)]
    assert any_lab.told("pause", "--queue", "default") == {"paused": ["default"]}
    until(lambda: depth(any_lab).ready == 5)  # what was claimed is back
    any_lab.let_go("hold")
    any_lab.desk.value(held)  # what ran went on
    any_lab.desk.value(any_lab.desk.send("mail", {"queue": "mail"}))  # and so do other queues
    assert {(any_lab.desk.record(each).state, any_lab.desk.record(each).attempt) for each in waiting} == {
        (State.QUEUED, 0)
    }
    assert worker.end() == 0

    any_lab.start("w2", "--concurrency", "1")
    any_lab.desk.value(any_lab.desk.send("mail", {"queue": "mail"}))
    assert depth(any_lab).ready == 5
    status = any_lab.told("queue-status", worker="w2")["queues"]
    assert {queue: (each["paused"], each["ready"]) for queue, each in status.items()} == {
        "default": (True, 5),
        "mail": (False, 0),
    }
    assert any_lab.told("resume", "--queue", "default", worker="w2") == {"paused": []}
    for each in waiting:
        any_lab.desk.value(each)
    assert [any_lab.times(f"q{number}") for number in range(5)] == [1] * 5
    assert any_lab.noted(EventKind.WORKER_PAUSED)[0]["queues"] == ["default"]


def test_a_task_sent_to_a_paused_queue_is_left_alone_even_by_a_worker_that_waits_for_it(any_lab: Lab) -> None:
    any_lab.start("w1")
    for number in range(5):
        any_lab.desk.value(any_lab.desk.send("quick", mark=f"before{number}"))
    any_lab.told("pause", "--queue", "default")
    waiting = [any_lab.desk.send("quick", mark=f"q{number}") for number in range(10)]
    any_lab.desk.value(any_lab.desk.send("mail", {"queue": "mail"}))
    assert depth(any_lab) == Depth(ready=10)
    any_lab.told("pause", "--queue", "mail")
    waiting += [any_lab.desk.send("quick", mark=f"q{number}") for number in range(10, 20)]
    assert depth(any_lab) == Depth(ready=20)
    any_lab.told("resume", "--queue", "default", "--queue", "mail")
    for each in waiting:
        any_lab.desk.value(each)
    kinds = [event.kind for event in all_events(any_lab.desk.app.store) if event.task_id in waiting]
    assert EventKind.REQUEUED not in kinds
    assert [any_lab.times(f"q{number}") for number in range(20)] == [1] * 20


def test_a_pause_of_one_worker_is_its_own_and_stays_with_its_name(any_lab: Lab) -> None:
    first = any_lab.launch("w1", "--concurrency", "1")
    second = any_lab.launch("w2", "--concurrency", "1")
    any_lab.ready(first, "w1")
    any_lab.ready(second, "w2")
    done = any_lab.answers("pause", "--worker", "w1", "--queue", "default", "--queue", "mail")
    assert [each["workerId"] for each in done["replies"]] == ["w1"]
    assert done["scopes"] == {"default": "w1", "mail": "w1"}
    assert {name: each["state"] for name, each in any_lab.replies("ping").items()} == {"w1": "paused", "w2": "ok"}
    for number in range(5):
        record = any_lab.desk.ended(any_lab.desk.send("quick", mark=f"q{number}"))
        assert record.worker == "w2"

    assert first.end() == 0
    any_lab.start("w1", "--concurrency", "1")
    assert {name: each["state"] for name, each in any_lab.replies("ping").items()} == {"w1": "paused", "w2": "ok"}
    assert second.end() == 0
    waits = any_lab.desk.send("quick", mark="waits")
    assert any_lab.answers("resume", "--worker", "w1", "--queue", "default")["scopes"] == {"default": ""}
    assert any_lab.desk.ended(waits).worker == "w1"


def test_a_pause_holds_with_no_worker_there(lab: Lab) -> None:
    assert "the pause is stored" in lab.shell.out("queue", "pause", "default", "--unknown-ok")
    waits = lab.desk.send("quick")
    lab.start()
    lab.desk.value(lab.desk.send("mail", {"queue": "mail"}))
    assert lab.desk.record(waits).state is State.QUEUED
    assert lab.told("resume", "--queue", "default") == {"paused": []}
    lab.desk.value(waits)


def test_operators_that_pause_at_the_same_time_do_not_undo_each_other(any_lab: Lab) -> None:
    names = [f"w{number}" for number in range(1, 5)]
    flags = ("--queue", "default", "--unknown-ok", "--timeout", "100ms", "--worker")
    shell = any_lab.shell
    typed = [
        subprocess.Popen([STEM, "worker", "pause", *flags, name], cwd=shell.directory, env=shell.variables)
        for name in names
    ]
    assert [each.wait(timeout=30) for each in typed] == [0] * 4
    (record,) = any_lab.desk.app.store.revokes.get([pause_id("default")]).values()
    assert record.reason == "w1,w2,w3,w4"


def test_one_goes_on_while_all_others_are_paused(lab: Lab) -> None:
    lab.shell.out("worker", "pause", "--queue", "default", "--unknown-ok")
    lab.shell.out("worker", "resume", "--queue", "default", "--worker", "w1")
    lab.start("w1", "--concurrency", "1")
    lab.start("w2", "--concurrency", "1")
    status = {
        name: each["payload"]["queues"]["default"]["paused"] for name, each in lab.replies("queue-status").items()
    }
    assert status == {"w1": False, "w2": True}


def test_a_queue_must_be_named(lab: Lab) -> None:
    assert "--queue" in lab.shell.refusal("worker", "pause", code=64)
    assert "Queue 'not one'" in lab.shell.refusal("worker", "pause", "--queue", "not one", code=64)
    assert lab.desk.app.store.revokes.version() == 0
