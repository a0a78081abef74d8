"""Operators ask live workers: who is there, how each is, what it does; and what they are told when one does not answer."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from acceptance.lab import Lab
from stem.cli.main import cli
from stem.core.lifecycle import EventKind, State
from support.until import until

LAB = Path(__file__).parents[3] / "examples" / "worker_control_lab" / "lab.py"
KEYS = "k1:hmac-sha256:" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA=="


def three(lab: Lab) -> None:
    names = ("w1", "w2", "w3")
    workers = [lab.launch(name, "--concurrency", "1") for name in names]
    for name, worker in zip(names, workers, strict=True):
        lab.ready(worker, name)


def test_a_ping_reaches_all_and_the_frozen_and_the_dead_are_told_apart(any_lab: Lab) -> None:
    three(any_lab)
    everybody = any_lab.answers("ping", "--timeout", "25s")
    assert {each["workerId"]: each["payload"]["workerId"] for each in everybody["replies"]} == {
        "w1": "w1",
        "w2": "w2",
        "w3": "w3",
    }
    assert all(each["payload"]["pong"] is True for each in everybody["replies"])
    assert everybody["elapsedSeconds"] < 20, "it ends when all have answered, not when the time is up"

    assert list(any_lab.replies("ping", "--worker", "w3", "--worker", "w1")) == ["w1", "w3"]

    os.kill(any_lab.pulses["w2"], signal.SIGSTOP)
    os.kill(any_lab.pulses["w3"], signal.SIGKILL)
    # More than once, since on a busy machine w1 may be late too.
    until(lambda: how_each_is(any_lab) == {"w1": ("ok", "ok"), "w2": ("timeout", "timeout"), "w3": ("timeout", "dead")})

    def is_told() -> bool:
        said = any_lab.run("ping", "--timeout", "1s")
        assert said.returncode == 70 and "Worker w2 said nothing within 1 s." in said.stderr
        return "2 of 3 workers did not answer" in said.stderr

    until(is_told)


def how_each_is(lab: Lab) -> dict[str, tuple[str, str]]:
    found = lab.replies("ping", "--timeout", "1s", code=70)
    return {name: (each["status"], each["state"]) for name, each in found.items()}


def test_a_worker_answers_within_200_ms_while_busy_while_paused_and_while_draining(any_lab: Lab) -> None:
    def is_quick(state: str) -> bool:
        """Some slow answers may be the machine's; so many are the worker's."""
        tries = (any_lab.answers("ping") for _ in range(25))
        return any(each["elapsedSeconds"] < 0.2 and each["replies"][0]["state"] == state for each in tries)

    any_lab.start("w1", "--concurrency", "2")
    for mark in ("a", "b"):
        any_lab.desk.send("hold", mark=mark)
    any_lab.began("a", "b")
    assert is_quick("ok")
    any_lab.told("pause", "--queue", "default", "--queue", "mail")
    assert is_quick("paused")
    any_lab.told("shutdown")
    assert is_quick("draining")


def test_running_tasks_are_listed_and_counted_under_every_name_of_the_command(lab: Lab) -> None:
    worker = lab.start("w1", "--concurrency", "3")
    held, other = lab.desk.send("hold"), lab.desk.send("hold-inline")
    lab.began("hold", "inline")
    for words in (("inspect",), ("active",), ("list-active",), ("control", "inspect"), ("control", "list-active")):
        tasks = lab.told(*words)["tasks"]
        assert {each["id"]: (each["task"], each["queue"], each["attempt"]) for each in tasks} == {
            held: ("hold", "default", 0),
            other: ("hold-inline", "default", 0),
        }
    assert [each["id"] for each in lab.told("inspect", "--task", "hold")["tasks"]] == [held]
    assert [each["id"] for each in lab.told("inspect", "--id", other)["tasks"]] == [other]
    assert lab.told("inspect", "--queue", "mail")["tasks"] == []
    line = next(line for line in lab.run("inspect").stdout.splitlines() if held in line)
    assert line.split()[:5] == ["w1", "ok", held, "hold", "default"]

    until(lambda: len(lab.told("stats")["isolates"]) >= 3, seconds=30)
    told = lab.told("stats", "--tasks")
    assert (told["pid"], told["inflight"], told["state"]) == (worker.process.pid, 2, "ok")
    assert (told["concurrency"], told["activeConcurrency"], told["maxConcurrency"]) == (3, 3, 3)
    assert {each["id"] for each in told["active"]} == {held, other}
    assert "active" not in lab.told("stats")
    assert lab.told("stats")["queueDepth"] == 0
    lab.desk.ended(lab.desk.send("quick"))
    until(lambda: lab.told("stats")["counters"].get("succeeded") == 1, seconds=30)


def test_every_command_is_there_with_and_without_control(lab: Lab) -> None:
    context = click.Context(cli)
    steering = cli.get_command(context, "worker")
    assert isinstance(steering, click.Group)
    control = steering.get_command(context, "control")
    assert isinstance(control, click.Group)
    names = control.list_commands(context)
    assert len(names) == 13
    for name in names:
        command = control.get_command(context, name)
        assert command is not None and steering.get_command(context, name) is command
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert flags >= {"--worker", "--namespace", "--timeout", "--json", "--broker-url", "--results-url"}
    for group in (("worker",), ("worker", "control")):
        listed = lab.shell.out(*group, "--help")
        for name in names:
            assert f"  {name} " in listed


def test_where_no_worker_is_known_a_sentence_says_so_and_the_exit_code_is_1(lab: Lab) -> None:
    lab.desk.send("quick")
    assert "No worker is running in namespace" in lab.shell.refusal("worker", "ping", code=1)
    lab.start()
    began = time.monotonic()
    assert "No worker nobody is running" in lab.shell.refusal(
        "worker", "ping", "--worker", "nobody", "--timeout", "25s", code=1
    )
    assert time.monotonic() - began < 20, "it waited for a worker of which no heartbeat speaks"
    assert "No worker is running in namespace 'elsewhere'" in lab.shell.refusal(
        "worker", "ping", "--namespace", "elsewhere", code=1
    )


def test_one_named_worker_that_is_not_there_beside_one_that_is(lab: Lab) -> None:
    lab.start()
    told = lab.answers("ping", "--worker", "w1", "--worker", "gone", "--timeout", "25s", code=70)
    assert told["elapsedSeconds"] < 20
    found = {each["workerId"]: each for each in told["replies"]}
    assert {name: each["status"] for name, each in found.items()} == {"w1": "ok", "gone": "timeout"}
    assert found["gone"]["error"]["code"] == "unknown-worker"


@pytest.mark.parametrize(
    ("variables", "flags"),
    [
        ({"STEM_CONTROL_NAMESPACE": "ops"}, ()),
        ({}, ("--namespace", "ops")),
    ],
)
def test_workers_that_listen_under_a_name_of_their_own_are_asked_under_it(
    lab: Lab, variables: dict[str, str], flags: tuple[str, ...]
) -> None:
    lab.start(shell=lab.shell.at(STEM_CONTROL_NAMESPACE="ops"))
    assert "No worker is running" in lab.shell.refusal("worker", "ping", code=1)
    assert '"pong": true' in lab.shell.at(**variables).out("worker", "ping", "--json", *flags)


def test_workers_of_another_namespace_are_asked_under_its_name(lab: Lab) -> None:
    worker = lab.launch("w1", "--namespace", "n2")
    worker.says("worker.started")
    until(lambda: lab.run("ping", "--namespace", "n2").returncode == 0, seconds=30)
    assert "No worker is running" in lab.shell.refusal("worker", "ping", code=1)
    grouped = lab.shell.at(STEM_WORKER_NAMESPACE="n2", STEM_NAMESPACE="n2")
    assert "pong" in grouped.out("worker", "ping")


def test_the_time_to_wait_is_the_flags_then_the_environments(lab: Lab) -> None:
    worker = lab.start()
    worker.process.send_signal(signal.SIGSTOP)
    try:
        slow = lab.shell.at(STEM_CONTROL_TIMEOUT="400ms")
        assert "within 0.4 s" in slow.run("worker", "ping").stderr
        assert "within 0.7 s" in slow.run("worker", "ping", "--timeout", "0.7").stderr
    finally:
        worker.process.send_signal(signal.SIGCONT)


def test_where_keys_are_set_only_signed_commands_are_obeyed(lab: Lab) -> None:
    signing = lab.shell.at(STEM_SIGNING_KEYS=KEYS)
    worker = lab.start(shell=signing)
    refused = lab.replies("shutdown", "--mode", "hard", code=70)
    assert refused["w1"]["error"]["code"] == "signature-invalid"
    worker.says("control.refused code=signature-invalid")
    assert "pong" in signing.out("worker", "ping")
    assert signing.json("worker", "stats")["replies"][0]["payload"]["control"]["signature-invalid"] == 1


def test_a_value_that_a_worker_cannot_take_is_told_and_the_exit_code_is_64(lab: Lab) -> None:
    lab.start()
    said = lab.run("rate-limit", "nothing", "5/s")
    assert said.returncode == 64
    assert "This worker has no task 'nothing'" in said.stdout and "w1: This worker has no task" in said.stderr
    assert lab.replies("rate-limit", "quick", "often", code=64)["w1"]["error"]["code"] == "invalid-payload"
    assert lab.replies("autoscale", "--min", "20", code=64)["w1"]["error"]["code"] == "invalid-payload"


def test_a_rate_limit_can_be_set_and_lifted_while_workers_run(lab: Lab) -> None:
    lab.start()
    assert lab.told("rate-limit", "quick", "1/h") == {"task": "quick", "rateLimit": "1/h"}
    ids = [lab.desk.send("quick") for _ in range(4)]
    until(lambda: sum("throttled" in lab.desk.kinds(each) for each in ids) == 3, seconds=30)
    lab.began("quick")
    assert lab.times("quick") == 1
    assert lab.told("rate-limit", "quick", "none") == {"task": "quick", "rateLimit": None}
    lab.desk.value(lab.desk.send("quick"))


def test_isolates_are_replaced_when_asked_each_after_its_task(lab: Lab) -> None:
    lab.start("w1", "--concurrency", "2")
    held = lab.desk.send("hold")
    busy = lab.began("hold")
    until(lambda: len(lab.told("stats")["isolates"]) == 2, seconds=30)
    (idle,) = set(lab.told("stats")["isolates"]) - {busy}
    assert lab.told("recycle", "--isolate", str(idle)) == {"recycling": [idle]}
    assert "has the isolate 1;" in lab.shell.refusal("worker", "recycle", "--isolate", "1", code=1)
    until(lambda: len(now := set(lab.told("stats")["isolates"]) - {idle}) == 2 and busy in now, seconds=30)
    assert busy in lab.told("recycle")["recycling"]
    lab.let_go("hold")
    assert lab.desk.value(held) == busy, "it ended what it ran"
    until(lambda: not {busy, idle} & set(lab.told("stats")["isolates"]), seconds=30)
    until(lambda: len(lab.noted(EventKind.WORKER_RECYCLED)) == 3)
    assert {each["reason"] for each in lab.noted(EventKind.WORKER_RECYCLED)} == {"asked for"}


def test_the_examples_of_the_guide_work_as_they_are_written(lab: Lab) -> None:
    workers = {name: lab.launch(name, "--concurrency", "1") for name in ("worker-a", "worker-b")}
    for name, worker in workers.items():
        lab.ready(worker, name)
    id = lab.desk.send("hold")
    lab.began("hold")
    for line in (
        "stem worker ping --worker worker-a --worker worker-b",
        "stem worker inspect --json",
        f"stem worker revoke --task {id} --terminate",
        "stem worker pause --worker worker-a --queue default",
        "stem worker resume --worker worker-a --queue default",
        "stem worker shutdown --mode warm",
    ):
        done = lab.shell.paste(line)
        assert (done.returncode, done.stderr) == (0, ""), (line, done)
    assert lab.desk.ended(id).state is State.CANCELLED
    assert [worker.process.wait(timeout=30) for worker in workers.values()] == [0, 0]


@pytest.mark.timeout(240)
def test_the_lab_holds_what_it_promises_by_one_command(tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("STEM_")}
    done = subprocess.run(
        [sys.executable, str(LAB)],
        cwd=tmp_path,
        env={**variables, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    held, of = re.findall(r"(\d+) of (\d+) expectations held", done.stdout)[0]
    assert held == of and int(of) >= 18
    assert list(tmp_path.iterdir()) == []
