"""Processes that are started and left, held by their descriptor and ended."""

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from stem.core.errors import ConfigError
from stem.runtime import pidfile
from stem.runtime.daemon import LaunchPlan, ProcessHandle, last_lines, launch
from stem.runtime.pidfile import Running
from support.until import until

Launch = Callable[[LaunchPlan], "subprocess.Popen[bytes]"]


@pytest.fixture
def plan(tmp_path: Path) -> LaunchPlan:
    return LaunchPlan(
        command=("sleep", "60"),
        environment=dict(os.environ),
        pidfile=tmp_path / "run" / "alpha.pid",
        logfile=tmp_path / "log" / "alpha.log",
        workdir=tmp_path / "work",
    )


@pytest.fixture
def launched() -> Iterator[Launch]:
    started: list[subprocess.Popen[bytes]] = []

    def launch_one(plan: LaunchPlan) -> "subprocess.Popen[bytes]":
        process = launch(plan)
        assert isinstance(process, subprocess.Popen)
        started.append(process)
        return process

    yield launch_one
    for process in started:
        process.kill()
        process.wait()


def shell(plan: LaunchPlan, script: str) -> LaunchPlan:
    return replace(plan, command=("sh", "-c", script))


def test_a_launched_process_leads_its_own_session_in_its_folder_and_finds_its_pid_file(
    plan: LaunchPlan, launched: Launch
) -> None:
    process = launched(
        shell(
            plan, 'head -1 "$FILE"; pwd; cat; echo "to stderr" >&2; exec sleep 60'.replace("$FILE", str(plan.pidfile))
        )
    )
    until(lambda: len(last_lines(plan.logfile)) == 3)
    assert last_lines(plan.logfile) == [str(process.pid), str(plan.workdir), "to stderr"]
    assert os.getsid(process.pid) == process.pid
    found = pidfile.read(plan.pidfile)
    assert isinstance(found, Running) and found.pid == process.pid, "though the shell has become another program"


def test_a_second_start_finds_the_first(plan: LaunchPlan, launched: Launch) -> None:
    process = launched(plan)
    again = launch(plan)
    assert isinstance(again, Running) and again.pid == process.pid


def test_the_log_goes_on_where_it_was(plan: LaunchPlan, launched: Launch) -> None:
    for text in ("one", "two"):
        launched(shell(plan, f"echo {text}")).wait()
    assert last_lines(plan.logfile) == ["one", "two"]
    assert last_lines(plan.logfile, after=4) == ["two"]
    assert last_lines(plan.logfile, most=1) == ["two"]
    assert last_lines(plan.logfile.parent / "none") == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"command": ("/no/such/program",)}, "/no/such/program cannot be used: No such file"),
        ({"command": ("/etc/passwd",)}, "/etc/passwd cannot be used: Permission denied"),
        ({"logfile": Path("/")}, "/ cannot be used: Is a directory"),
        ({"workdir": Path("/etc/passwd")}, "The folder /etc/passwd cannot be created"),
        ({"pidfile": Path("/proc/alpha.pid")}, "The pid file /proc/alpha.pid cannot be written"),
    ],
)
def test_a_file_or_program_that_cannot_be_used_is_named_and_leaves_no_pid_file(
    plan: LaunchPlan, change: dict[str, Path], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        launch(replace(plan, **change))  # type: ignore[arg-type]
    assert not plan.pidfile.exists()


def test_a_pid_file_that_cannot_be_read_is_not_replaced(plan: LaunchPlan) -> None:
    plan.pidfile.parent.mkdir()
    plan.pidfile.write_text("garbage")
    with pytest.raises(ConfigError, match="no process id on its first line"):
        launch(plan)
    assert plan.pidfile.read_text() == "garbage"


def test_a_process_is_held_until_it_ends(plan: LaunchPlan, launched: Launch) -> None:
    process = launched(plan)
    found = pidfile.read(plan.pidfile)
    assert isinstance(found, Running)
    held = ProcessHandle.open(plan.pidfile, found)
    assert held is not None
    with held:
        assert not held.has_ended(0)
        held.terminate()
        assert held.has_ended(10)
        process.wait()
        held.terminate()
        held.kill()
    assert ProcessHandle.open(plan.pidfile, found) is None


def test_one_that_only_has_the_same_number_is_not_held(plan: LaunchPlan, launched: Launch) -> None:
    launched(plan)
    found = pidfile.read(plan.pidfile)
    assert isinstance(found, Running)
    assert ProcessHandle.open(plan.pidfile, replace(found, start="another")) is None


def test_a_kill_takes_the_group_along(plan: LaunchPlan, launched: Launch) -> None:
    process = launched(shell(plan, "trap '' TERM; sleep 61 & sleep 62; true"))
    children = until(lambda: c if len(c := psutil.Process(process.pid).children()) == 2 else None)
    found = pidfile.read(plan.pidfile)
    assert isinstance(found, Running)
    held = ProcessHandle.open(plan.pidfile, found)
    assert held is not None
    with held:
        held.terminate()
        assert not held.has_ended(0.1)
        held.kill()
        assert held.has_ended(10)
    assert psutil.wait_procs(children, timeout=10)[1] == []
