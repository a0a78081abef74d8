"""`stem worker multi`: real processes, known by their pid files, started once and stopped for good."""

import json
import os
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from acceptance.shell import STEM, Shell
from stem.runtime.pidfile import write_own
from support.until import until

HOST = socket.gethostname()
SHOP = """
import os

from stem import Stem

app = Stem()


@app.task(name="where")
def where() -> list[str]:
    return [os.environ["STEM_WORKER_NODE"], os.environ["STEM_WORKER_PIDFILE"], os.environ["STEM_WORKER_LOGFILE"]]
"""
FILES = ("--pidfile", "run/%n.pid", "--logfile", "log/%n.log")
PIDS = FILES[:2]


@pytest.fixture
def site(shell: Shell) -> Iterator[Shell]:
    """Whatever is started by a pid file here is killed in the end."""
    (shell.directory / "shop.py").write_text(SHOP)
    yield shell.at(PYTHONDONTWRITEBYTECODE="1")
    for file in shell.directory.rglob("*.pid"):
        first = file.read_text().partition("\n")[0]
        with suppress(ProcessLookupError):
            if first.isdigit() and os.getsid(int(first)) == int(first):
                os.killpg(int(first), signal.SIGKILL)


def nodes(done: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = json.loads(done.stdout)["nodes"]
    return told


def pid_of(shell: Shell, node: str) -> int:
    return int((shell.directory / "run" / f"{node}.pid").read_text().splitlines()[0])


def log_of(shell: Shell, node: str) -> str:
    return (shell.directory / "log" / f"{node}.log").read_text()


def idle(*words: str) -> tuple[str, ...]:
    """A node that costs nothing."""
    return ("--command-line", "sleep 60", "--wait", "0.1s", *FILES, *words)


def is_gone(pid: int) -> bool:
    """Though whoever inherited it may not have taken note yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def a_bystander() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "60"])


def test_workers_start_run_tasks_are_looked_at_and_stop(site: Shell) -> None:
    started = nodes(site.run("worker", "multi", "start", "alpha", "beta", *FILES, "--json", "--", "--app", "shop:app"))
    assert [(each["node"], each["state"], each["pid"]) for each in started] == [
        ("alpha", "started", pid_of(site, "alpha")),
        ("beta", "started", pid_of(site, "beta")),
    ]
    until(lambda: "worker.started" in log_of(site, "alpha") and "worker.started" in log_of(site, "beta"), seconds=30)
    told = json.loads(site.out("task", "result", site.out("enqueue", "where"), "--wait", "20s"))
    node, run, log = told
    assert node in ("alpha", "beta")
    assert run == f"{site.directory}/run/{node}.pid" and log == f"{site.directory}/log/{node}.log"
    both = {f"alpha@{HOST}", f"beta@{HOST}"}
    until(lambda: {each["workerId"] for each in site.json("health")["workers"]} == both, seconds=30)

    running = site.json("worker", "multi", "status", "alpha", "beta", *PIDS)["nodes"]
    assert [each["state"] for each in running] == ["running", "running"]
    assert all(each["uptimeSeconds"] > 0 and each["since"].endswith("Z") for each in running)

    stopped = site.json("worker", "multi", "stop", "alpha", "beta", *PIDS)["nodes"]
    assert [(each["state"], each["pid"]) for each in stopped] == [("stopped", each["pid"]) for each in started]
    assert all(is_gone(each["pid"]) for each in started)
    assert "worker.stop_requested mode=warm" in log_of(site, "alpha")
    assert site.json("health")["workers"] == []
    assert list((site.directory / "run").iterdir()) == []


def test_the_commands_of_the_specification_work_as_they_stand_there(site: Shell) -> None:
    worker = site.directory / "stem-worker"
    worker.write_text(
        f"#!/bin/sh\necho node $STEM_WORKER_NODE colour $COLOUR\nexec {shlex.quote(STEM)} worker start --app shop:app\n"
    )
    worker.chmod(0o755)
    (site.directory / "stem.env").write_text("COLOUR=green\n")
    here = shlex.quote(str(site.directory))
    done = site.paste(f"""
        export STEM_WORKER_COMMAND="{here}/stem-worker"
        stem worker multi start alpha beta \
        --pidfile={here}/var/run/stem/%n.pid \
        --logfile={here}/var/log/stem/%n.log \
        --env-file={here}/stem.env || exit 1
        stem worker multi status alpha beta --pidfile={here}/var/run/stem/%n.pid || exit 2
        until grep -q node {here}/var/log/stem/beta.log; do sleep 0.05; done
        stem worker multi stop alpha beta --pidfile={here}/var/run/stem/%n.pid || exit 3
        """)
    assert (done.returncode, done.stderr) == (0, "")
    assert [word for word in ("started", "running", "stopped") if done.stdout.count(word) >= 2] == [
        "started", "running", "stopped",
    ]  # fmt: skip
    log = (site.directory / "var/log/stem/beta.log").read_text()
    assert log.startswith("node beta colour green\n")


def test_a_node_that_runs_is_not_started_twice(site: Shell) -> None:
    site.out("worker", "multi", "start", "alpha", *idle())
    pid = pid_of(site, "alpha")
    (told,) = site.json("worker", "multi", "start", "alpha", *idle())["nodes"]
    assert (told["state"], told["pid"]) == ("running", pid)
    assert pid_of(site, "alpha") == pid


def test_of_many_starts_at_once_one_starts(site: Shell) -> None:
    command = [STEM, "worker", "multi", "start", "alpha", *idle(), "--json"]
    racing = [
        subprocess.Popen(command, cwd=site.directory, env=site.variables, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    told = [json.loads(each.communicate(timeout=20)[0])["nodes"][0] for each in racing]
    assert sorted(each["state"] for each in told) == ["running", "running", "running", "started"]
    assert {each["pid"] for each in told} == {pid_of(site, "alpha")}


def test_a_node_outlives_who_started_it_and_its_terminal(site: Shell) -> None:
    line = f"stem worker multi start alpha {shlex.join(idle())} && kill -HUP 0"
    gone = subprocess.run(
        line,
        shell=True,
        cwd=site.directory,
        env=site.variables,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # under nohup it would be ignored
        timeout=30,
    )
    assert gone.returncode == -signal.SIGHUP, "the shell, and whoever else was in its group"
    (told,) = site.json("worker", "multi", "status", "alpha", *PIDS)["nodes"]
    assert told["state"] == "running"
    process = psutil.Process(told["pid"])
    assert os.getsid(process.pid) == process.pid
    assert os.readlink(f"/proc/{process.pid}/fd/0") == os.devnull


def test_a_command_that_falls_at_once_is_told_with_what_it_said(site: Shell) -> None:
    (site.directory / "log").mkdir()
    (site.directory / "log" / "alpha.log").write_text("of yesterday\n")
    words = ("worker", "multi", "start", "alpha", "--wait", "25s", *FILES)
    done = site.run(*words, "--", "--app", "nowhere:app")
    assert done.returncode == 70
    assert "failed" in done.stdout and "It ended at once with exit code 64" in done.stdout
    assert "alpha: error: There is no module 'nowhere'" in done.stdout
    assert "yesterday" not in done.stdout
    assert not (site.directory / "run" / "alpha.pid").exists()
    (told,) = nodes(site.run(*words, "--json", "--command-line", "sh -c 'echo x; kill -9 $$'"))
    assert "signal 9" in told["message"] and told["log"] == ["x"]


def test_one_node_that_falls_keeps_no_other_from_starting(site: Shell) -> None:
    script = "sh -c 'test \"$STEM_WORKER_NODE\" = alpha && exit 3; exec sleep 60'"
    done = site.run(
        "worker", "multi", "start", "alpha", "beta", "--command-line", script, "--wait", "3s", *FILES, "--json"
    )
    assert done.returncode == 70
    assert [each["state"] for each in nodes(done)] == ["failed", "started"]


def test_a_command_that_is_not_there_is_told(site: Shell) -> None:
    done = site.run("worker", "multi", "start", "alpha", "--command", "/no/such/worker", *FILES)
    assert (done.returncode, done.stderr) == (70, "")
    assert "/no/such/worker cannot be used: No such file or directory." in done.stdout
    assert list((site.directory / "run").iterdir()) == []


def test_a_node_that_ignores_term_is_killed_with_its_children(site: Shell) -> None:
    script = "sh -c 'trap \"\" TERM; echo ready; sleep 61; sleep 62'"
    site.out("worker", "multi", "start", "alpha", "--command-line", script, *FILES)
    until(lambda: "ready" in log_of(site, "alpha"))
    pid = pid_of(site, "alpha")
    (child,) = until(psutil.Process(pid).children)
    # As a wrapper does that passes nothing on.
    (told,) = site.json("worker", "multi", "stop", "alpha", "--timeout", "0.3s", *PIDS)["nodes"]
    assert (told["state"], told["pid"]) == ("killed", pid)
    assert psutil.wait_procs([child], timeout=5)[1] == []
    assert not (site.directory / "run" / "alpha.pid").exists()


def test_a_node_that_stands_still_is_killed(site: Shell) -> None:
    site.out("worker", "multi", "start", "alpha", *idle())
    os.kill(pid_of(site, "alpha"), signal.SIGSTOP)
    (told,) = site.json("worker", "multi", "stop", "alpha", "--timeout", "0.3s", *PIDS)["nodes"]
    assert told["state"] == "killed"


def test_all_are_told_to_stop_before_any_is_waited_for(site: Shell) -> None:
    script = "sh -c 'trap \"sleep 2; exit 0\" TERM; echo ready; while :; do sleep 0.05; done'"
    names = [f"n{number}" for number in range(6)]
    site.out("worker", "multi", "start", *names, "--command-line", script, "--wait", "0.1s", *FILES)
    until(lambda: all("ready" in log_of(site, name) for name in names))
    told = site.json("worker", "multi", "stop", *names, "--timeout", "10s", *PIDS)["nodes"]
    assert [each["state"] for each in told] == ["stopped"] * 6, "one after the other they would need twelve seconds"


def test_stopping_what_does_not_run_is_no_failure(site: Shell) -> None:
    (told,) = site.json("worker", "multi", "stop", "alpha", *PIDS)["nodes"]
    assert told["state"] == "not-running"
    site.out("worker", "multi", "start", "alpha", *idle())
    os.kill(pid := pid_of(site, "alpha"), signal.SIGKILL)
    until(lambda: is_gone(pid))
    (told,) = site.json("worker", "multi", "stop", "alpha", *PIDS)["nodes"]
    assert told["state"] == "not-running" and "is stale" in told["message"]
    assert not (site.directory / "run" / "alpha.pid").exists()


def test_a_recycled_number_is_never_signalled_and_the_node_can_be_started(site: Shell) -> None:
    site.out("worker", "multi", "start", "alpha", *idle())
    file = site.directory / "run" / "alpha.pid"
    pid, since, start = file.read_text().splitlines()
    os.kill(int(pid), signal.SIGKILL)
    with a_bystander() as bystander:
        file.write_text(f"{bystander.pid}\n{since}\n{start}\n")
        done = site.run("worker", "multi", "status", "alpha", *PIDS, "--json")
        assert (done.returncode, nodes(done)[0]["state"]) == (70, "recycled")
        (told,) = site.json("worker", "multi", "stop", "alpha", *PIDS)["nodes"]
        assert told["state"] == "not-running" and "is another one now" in told["message"]
        file.write_text(f"{bystander.pid}\n{since}\n{start}\n")
        (told,) = site.json("worker", "multi", "start", "alpha", *idle())["nodes"]
        assert told["state"] == "started" and told["pid"] not in (bystander.pid, int(pid))
        assert bystander.poll() is None
        bystander.kill()


def test_a_pid_file_that_cannot_be_read_is_left_to_the_operator(site: Shell) -> None:
    (site.directory / "run").mkdir()
    (site.directory / "run" / "alpha.pid").write_text("what?\n")
    for verb, words in (("start", idle()), ("stop", PIDS), ("status", PIDS), ("restart", idle())):
        done = site.run("worker", "multi", verb, "alpha", *words)
        assert (done.returncode, done.stderr) == (70, ""), verb
        assert "cannot be used (no process id on its first line)" in done.stdout, verb
    assert (site.directory / "run" / "alpha.pid").read_text() == "what?\n"


@pytest.mark.parametrize(
    ("plant", "sentence"),
    [
        ("ln -s ../sshd.pid run/alpha.pid", "it is a symbolic link"),
        ("ln sshd.pid run/alpha.pid", "it has a second name"),
        ("cp sshd.pid run/alpha.pid", "it does not say when its process began"),
        ("cp own.pid run/alpha.pid; chmod 666 run/alpha.pid", "other users may write to it"),
    ],
)
def test_a_planted_pid_file_has_no_stranger_killed(site: Shell, plant: str, sentence: str) -> None:
    own = site.directory / "own.pid"
    with subprocess.Popen(["sleep", "60"], preexec_fn=lambda: write_own(own)) as stranger:
        (site.directory / "sshd.pid").write_text(f"{stranger.pid}\n")
        (site.directory / "run").mkdir()
        site.paste(plant)
        for verb, words in (("stop", PIDS), ("restart", idle())):
            done = site.run("worker", "multi", verb, "alpha", "--timeout", "0.1s", *words, "--json")
            (told,) = nodes(done)
            assert (done.returncode, told["state"]) == (70, "failed"), verb
            assert sentence in told["message"], verb
        assert stranger.poll() is None
        stranger.kill()


def test_a_restart_gives_new_processes_and_starts_what_did_not_run(site: Shell) -> None:
    site.out("worker", "multi", "start", "alpha", *idle())
    before = pid_of(site, "alpha")
    told = site.json("worker", "multi", "restart", "alpha", "beta", *idle())["nodes"]
    assert [each["state"] for each in told] == ["started", "started"]
    assert pid_of(site, "alpha") != before and is_gone(before)


def test_a_restart_that_fails_leaves_the_rest_running(site: Shell) -> None:
    site.out("worker", "multi", "start", "alpha", "beta", "gamma", *idle())
    words = ("--command-line", "false", "--wait", "25s", *FILES, "--json")
    done = site.run("worker", "multi", "restart", "alpha", "beta", "gamma", *words)
    assert done.returncode == 70
    assert [each["state"] for each in nodes(done)] == ["failed", "untouched", "untouched"]
    states = nodes(site.run("worker", "multi", "status", "alpha", "beta", "gamma", *PIDS, "--json"))
    assert [each["state"] for each in states] == ["missing", "running", "running"]


def test_the_command_is_the_flags_before_the_files_before_the_environments(site: Shell) -> None:
    (site.directory / "stem.env").write_text("STEM_WORKER_COMMAND=\"echo 'from file'\"\nSHADE='dark # blue'\n")
    elsewhere = site.at(STEM_WORKER_COMMAND="echo 'from environment'", SHADE="none")
    cases = {
        "env": ((), "from environment x"),
        "file": (("--env-file", "%n.env"), "from file x"),
        "flag": (("--env-file", "stem.env", "--command", "/bin/echo"), "x"),
        "line": (("--env-file", "stem.env", "--command-line", "sh -c 'echo \"$SHADE\"' --"), "dark # blue"),
    }
    (site.directory / "file.env").write_bytes((site.directory / "stem.env").read_bytes())
    for node, (words, said) in cases.items():
        elsewhere.run("worker", "multi", "start", node, *words, *FILES, "--wait", "25s", "--", "x")
        assert log_of(site, node) == f"{said}\n"


def test_placeholders_are_filled_in_and_paths_count_from_here(site: Shell) -> None:
    words = ("--pidfile", "run/%n-%I.pid", "--logfile", "%h/%n%%.log", "--workdir", "work/%n", "--wait", "0.1s")
    told = site.json("worker", "multi", "start", "a", "b", *words, "--command-line", "sh -c 'pwd; exec sleep 60'")
    assert [each["pidfile"] for each in told["nodes"]] == [
        f"{site.directory}/run/{name}.pid" for name in ("a-1", "b-2")
    ]
    log = site.directory / HOST / "b%.log"
    assert until(log.read_text) == f"{site.directory}/work/b\n"
    stopped = site.json("worker", "multi", "stop", "a", "b", "--pidfile", "run/%n-%I.pid")["nodes"]
    assert [each["state"] for each in stopped] == ["stopped", "stopped"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("start",), "Missing argument 'NODE...'"),
        (("start", "--", "alpha"), "Missing argument 'NODE...'"),
        (("start", "../alpha"), "Node '../alpha' is not"),
        (("start", "a", "a"), "Node 'a' is named twice"),
        (("start", "a", "b", "--pidfile", "one.pid"), "put %n into --pidfile"),
        (("stop", "a", "b", "--pidfile", "one.pid"), "put %n into --pidfile"),
        (("status", "a", "--pidfile", "%x.pid"), "'%x.pid' has '%x'"),
        (("start", "a", "--logfile", "%x"), "'%x' has '%x'"),
        (("start", "a", "--command", "x", "--command-line", "y"), "Name the command once"),
        (("start", "a", "--command-line", "sh -c 'x"), "cannot be split into words"),
        (("start", "a", "--env-file", "none.env"), "none.env cannot be read: No such file"),
        (("start", "a", "--env-file", "bad.env"), "Line 2 of bad.env has no '='"),
        (("stop", "a", "--timeout", "soon"), "'soon' is not a duration"),
    ],
)
def test_wrong_flags_are_refused_and_start_nothing(site: Shell, words: tuple[str, ...], sentence: str) -> None:
    (site.directory / "bad.env").write_text("A=1\nB\n")
    before = site.files
    told = site.refusal("worker", "multi", *words, code=64)
    assert sentence in told
    assert site.files == before


def test_folders_that_may_not_be_made_are_told(site: Shell, unprivileged: Any) -> None:
    locked = site.directory / "locked"
    locked.mkdir(mode=0o555)
    words = ("--command-line", "sleep 60", "--logfile", "alpha.log")
    for template in ("locked/run/%n.pid", "locked/%n.pid"):
        done = site.run("worker", "multi", "start", "alpha", *words, "--pidfile", template, preexec_fn=unprivileged)
        assert (done.returncode, done.stderr) == (70, "")
        assert "cannot be" in done.stdout and "locked" in done.stdout
    assert Path(locked).exists() and list(locked.iterdir()) == []


def test_every_command_has_help_with_an_example(shell: Shell) -> None:
    for words in (
        "status",
        "healthcheck",
        "diagnose",
        *(f"multi {verb}" for verb in ("start", "stop", "restart", "status")),
    ):
        assert f"Example: stem worker {words}" in shell.out("worker", *words.split(), "--help"), words
