"""A worker grows with its backlog and shrinks when idle, within its bounds, and no task is disturbed by it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from acceptance.lab import Lab
from stem.core.lifecycle import EventKind
from support.until import until

DEMO = Path(__file__).parents[3] / "examples" / "autoscaling_demo" / "demo.py"
HASTE = ("--tick", "100ms", "--scale-up-cool-down", "200ms", "--idle", "500ms", "--scale-down-cool-down", "100ms")


def test_from_two_to_at_most_ten_and_back_when_a_long_task_has_ended(any_lab: Lab) -> None:
    worker = any_lab.start("w1", "--autoscale", "2,10")
    long = any_lab.desk.send("hold")
    pid = any_lab.began("hold")
    any_lab.told("autoscale", *HASTE)
    crowd = [any_lab.desk.send("hold", mark="crowd") for _ in range(60)]

    def moves() -> list[tuple[int, int]]:
        return [(each["from"], each["to"]) for each in any_lab.noted(EventKind.WORKER_SCALED)]

    until(lambda: any(to == 10 for _, to in moves()), seconds=20, every=0.05)
    until(lambda: any_lab.told("stats")["activeConcurrency"] == 10, seconds=30)
    told = any_lab.told("stats")
    assert (told["pid"], told["maxConcurrency"]) == (worker.process.pid, 10)
    any_lab.let_go("crowd")
    for each in crowd:
        any_lab.desk.value(each)
    assert [each["id"] for each in any_lab.told("inspect")["tasks"]] == [long]
    assert all(to > from_ for from_, to in moves()), "a worker that runs something is not idle"
    any_lab.let_go("hold")
    assert any_lab.desk.value(long) == pid
    until(lambda: moves()[-1][1] == 2, seconds=60, every=0.05)
    assert {to for _, to in moves()} <= set(range(2, 11))
    assert all(0 < to - from_ <= 2 or from_ - to == 1 for from_, to in moves()), "no step is larger than it may be"
    assert all(each["reason"] for each in any_lab.noted(EventKind.WORKER_SCALED))

    until(lambda: any_lab.told("stats")["activeConcurrency"] == 2, seconds=30)
    assert any_lab.told("stats")["pid"] == worker.process.pid
    until(lambda: len(isolates(worker.process.pid)) <= 3, seconds=30)
    assert (any_lab.times("hold"), any_lab.times("crowd")) == (1, 60)


def isolates(pid: int) -> list[psutil.Process]:
    """The children of the fork server."""
    (reaper,) = psutil.Process(pid).children()
    (server,) = reaper.children()
    return server.children()


def test_bounds_and_switch_can_be_changed_while_it_runs(lab: Lab) -> None:
    lab.start("w1", "--concurrency", "2")

    def active() -> int:
        count: int = lab.told("stats")["activeConcurrency"]
        return count

    shown: dict[str, Any] = lab.told("autoscale")["autoscale"]
    assert (shown["enabled"], shown["min"], shown["max"]) == (False, 2, 12)
    changed = lab.told("autoscale", "--enabled", "--min", "4", "--max", "6", "--tick", "100ms")["autoscale"]
    assert (changed["enabled"], changed["min"], changed["max"], changed["tick"]) == (True, 4, 6, 0.1)
    until(lambda: active() == 4, seconds=30)
    lab.told("autoscale", "--min", "1", "--max", "3")
    until(lambda: active() == 3, seconds=30)
    lab.told("autoscale", "--disabled")
    until(lambda: active() == 2, seconds=30)
    assert "off, min=1 max=3" in lab.run("autoscale").stdout


def test_bounds_that_cannot_be_meant_are_refused(lab: Lab) -> None:
    assert "--autoscale" in lab.shell.refusal("worker", "start", "--autoscale", "many", code=64)
    assert "above autoscale.max" in lab.shell.refusal("worker", "start", "--autoscale", "5,2", code=64)
    assert "autoscale.min" in lab.shell.refusal("worker", "start", "--autoscale", "0,2", code=64)


@pytest.mark.timeout(240)
def test_the_demo_scales_up_and_down_by_one_command(tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("STEM_")}
    done = subprocess.run(
        [sys.executable, str(DEMO)],
        cwd=tmp_path,
        env={**variables, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    held, of = re.findall(r"(\d+) of (\d+) expectations held", done.stdout)[0]
    assert held == of and int(of) >= 4
    assert list(tmp_path.iterdir()) == []
