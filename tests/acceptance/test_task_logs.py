"""`stem task logs`: what a task printed and logged, while it runs and after its end."""

import json
import os
import subprocess

from acceptance.lab import Lab
from acceptance.shell import STEM, Shell
from stem.contracts.store import Store
from stem.contracts.task_logs import LogLine
from support.builders import a_push
from support.until import until

ID = "0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00"


def test_the_output_of_a_task_is_stored_with_it(any_lab: Lab) -> None:
    any_lab.start()
    task = any_lab.desk.send("talks")
    any_lab.began("talks")
    with subprocess.Popen(
        [STEM, "task", "logs", task, "--follow", "--json"],
        cwd=any_lab.shell.directory, env=any_lab.shell.variables, stdout=subprocess.PIPE, text=True,
    ) as following:  # fmt: skip
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["text"] == "it begins"  # it runs still
        any_lab.let_go("talks")
        found = [json.loads(line) for line in following.stdout]
    assert [(line["level"], line["text"]) for line in found[:1]] == [("warning", "shop: careful")]
    assert found[-1]["text"].startswith("it ends")
    assert any_lab.desk.value(task) is None
    printed = any_lab.shell.out("task", "logs", task)
    assert "INFO    it begins" in printed and "WARNING shop: careful" in printed


def test_output_that_bypasses_python_is_stored_and_attempts_are_told_apart(lab: Lab) -> None:
    lab.start()
    task = lab.desk.send("talks-and-fails")
    lab.desk.ended(task)
    lines = until(
        lambda: lab.shell.json("task", "logs", task)["lines"][3:] and lab.shell.json("task", "logs", task)["lines"]
    )
    assert [(line["attempt"], line["text"]) for line in lines] == [
        (1, "from Python"), (1, "from a child"), (2, "from Python"), (2, "from a child"),
    ]  # fmt: skip
    assert "-- attempt 2" in lab.shell.out("task", "logs", task)


def test_it_can_be_switched_off(lab: Lab) -> None:
    lab.start(shell=lab.shell.at(STEM_TASK_LOGS="0"))
    lab.let_go("talks")
    task = lab.desk.send("talks")
    lab.desk.value(task)
    assert lab.shell.out("task", "logs", task) == f"Nothing that {task} printed is kept."


def test_hostile_lines_cannot_move_the_cursor(shell: Shell, local_store: Store) -> None:
    local_store.broker.push([a_push(ID)])
    line = LogLine(task_id=ID, attempt=0, at=1.0, level="info", text="\x1b[2Jgone\nsecond\x07")
    local_store.task_logs.append([line])
    printed = shell.out("task", "logs", ID)
    assert "\x1b" not in printed and "\x07" not in printed and "gone" in printed
    assert shell.json("task", "logs", ID)["lines"][0]["text"] == line.text


def test_an_unknown_task_is_told_of(shell: Shell, local_store: Store) -> None:
    assert "There is no task" in shell.refusal("task", "logs", ID, code=1)
    assert os.path.exists(shell.directory / "stem.db") and local_store.task_logs.read(ID) == []
