"""Texts of a task that are written to deceive the reader of a terminal are escaped."""

import json

import pytest

from acceptance.lab import Lab
from support.until import until

# A C1 control sequence, a right-to-left override, and an escape sequence.
APP = r"""
from stem import Stem, TaskContext

app = Stem()
HOSTILE = "\x9b31m\u202egpj.exe\x1b]0;owned\x07"


@app.task(name="lies", max_retries=0)
def lies(ctx: TaskContext) -> None:
    print("said " + HOSTILE, flush=True)
    raise ValueError("raised " + HOSTILE)


@app.task(name="returns")
def returns() -> dict[str, str]:
    return {"told": HOSTILE}
"""
ACTING = "\x9b\u202e\x1b\x07"


@pytest.mark.parametrize("form", ["text", "json"])
def test_nothing_that_a_task_says_acts_on_the_terminal(lab: Lab, form: str) -> None:
    (lab.shell.directory / "lab.py").write_text(APP)
    worker = lab.start("w1", "--log-format", form)
    shell = lab.shell
    failed, returned = shell.out("enqueue", "lies"), shell.out("enqueue", "returns")
    until(lambda: shell.json("task", "show", failed)["status"] == "failed", seconds=60)
    assert json.loads(shell.out("task", "result", returned, "--wait", "60s"))["told"].startswith("\x9b31m")
    for words in (
        ("task", "show", failed),
        ("task", "show", failed, "--json"),
        ("task", "result", failed),
        ("task", "result", failed, "--json"),
        ("task", "result", failed, "--traceback"),
        ("task", "result", returned),
        ("task", "result", returned, "--json"),
        ("task", "list"),
        ("task", "list", "--json"),
        ("dlq", "list"),
        ("dlq", "list", "--json"),
        ("dlq", "show", failed),
        ("dlq", "show", failed, "--json"),
    ):
        done = shell.run(*words)
        seen = done.stdout + done.stderr
        assert not set(ACTING) & set(seen.replace("\x1b[1m", "").replace("\x1b[0m", "")), (words, seen)
    assert "gpj.exe" in shell.run("task", "show", failed).stdout, "it is told, spelled out"
    until(lambda: "said " in worker.log, seconds=60)
    assert not set(ACTING) & set(worker.log)
