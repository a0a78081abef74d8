"""`stem worker healthcheck` and `stem worker diagnose`: is the process there, and what would keep one from working?"""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from acceptance.shell import Shell
from stem.backends.sqlite import connect
from stem.cli.worker.diagnose import clock
from stem.core.settings.app import Settings
from support.servers import RedisServer
from support.until import until

FILES = ("--pidfile", "run/%n.pid", "--logfile", "log/%n.log")


@pytest.fixture
def alpha(shell: Shell) -> Iterator[psutil.Process]:
    """A node that costs nothing, started as an operator would."""
    line = "sh -c 'echo good morning; exec sleep 60'"
    shell.out("worker", "multi", "start", "alpha", "--command-line", line, "--wait", "0.1s", *FILES)
    until(lambda: (shell.directory / "log" / "alpha.log").read_text() == "good morning\n")
    process = psutil.Process(int((shell.directory / "run" / "alpha.pid").read_text().splitlines()[0]))
    yield process
    if process.is_running():
        process.kill()


def probe(shell: Shell, *words: str) -> tuple[int, dict[str, Any]]:
    done = shell.run("worker", "healthcheck", *words, "--json")
    return done.returncode, json.loads(done.stdout)


def kill(process: psutil.Process) -> None:
    process.kill()
    until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)


def test_a_worker_that_runs_is_told_as_the_specification_asks(shell: Shell, alpha: psutil.Process) -> None:
    code, told = probe(shell, "--node", "alpha", "--pidfile=run/alpha.pid", "--logfile=log/alpha.log")
    assert code == 0
    assert told == {
        "node": "alpha",
        "status": "running",
        "pid": alpha.pid,
        "since": (shell.directory / "run" / "alpha.pid").read_text().splitlines()[1],
        "uptimeSeconds": told["uptimeSeconds"],
        "pidfile": f"{shell.directory}/run/alpha.pid",
        "logfile": f"{shell.directory}/log/alpha.log",
        "message": told["message"],
    }
    assert 0 < told["uptimeSeconds"] < 60
    later = until(lambda: probe(shell, "--pidfile", "run/alpha.pid")[1])
    assert later["uptimeSeconds"] > told["uptimeSeconds"] and later["node"] is None
    assert f"Process {alpha.pid} has been running for" in shell.out("worker", "healthcheck", "--node", "alpha", *FILES)


def test_within_a_node_the_environment_says_which_it_is(shell: Shell) -> None:
    line = "sh -c 'stem worker healthcheck --json; exec sleep 60'"
    shell.out("worker", "multi", "start", "beta", "--command-line", line, *FILES)
    log = shell.directory / "log" / "beta.log"
    try:
        told = json.loads(until(lambda: text if (text := log.read_text()).endswith("}\n") else None, seconds=30))
        assert (told["node"], told["status"]) == ("beta", "running")
    finally:
        shell.out("worker", "multi", "stop", "beta", *FILES[:2])


def test_each_way_of_not_running_is_told_apart(shell: Shell, alpha: psutil.Process) -> None:
    file = shell.directory / "run" / "alpha.pid"
    words = ("--node", "alpha", *FILES)
    _, since, start = file.read_text().splitlines()
    kill(alpha)
    with subprocess.Popen(["sleep", "60"]) as bystander:
        contents = {
            "stale": (None, f"process {alpha.pid} has ended"),
            "recycled": (f"{bystander.pid}\n{since}\n{start}\n", f"process {bystander.pid} is another one now"),
            "unreadable": ("7 dwarfs\n", "cannot be used (no process id on its first line)"),
            "missing": ("", "There is no pid file"),
        }
        for status, (content, sentence) in contents.items():
            if content is not None:
                file.write_text(content)
            if status == "missing":
                file.unlink()
            code, told = probe(shell, *words)
            assert (code, told["status"]) == (70, status)
            assert sentence in told["message"]
            refusal = shell.refusal("worker", "healthcheck", *words, code=70)
            assert sentence in refusal and refusal.endswith("Its log ends: good morning")
        bystander.kill()


def test_a_probe_without_a_pid_file_is_a_mistake(shell: Shell) -> None:
    assert "--pidfile" in shell.refusal("worker", "healthcheck", "--node", "alpha", code=64)
    assert "'%x'" in shell.refusal("worker", "healthcheck", "--node", "alpha", "--pidfile", "%x.pid", code=64)


def diagnosis(shell: Shell, *words: str, code: int, **how: Any) -> dict[str, Any]:
    done = shell.run("worker", "diagnose", *words, "--json", **how)
    assert (done.returncode, done.stderr) == (code, ""), done
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["errors"] == [each["message"] for each in told["checks"] if each["level"] == "error"]
    assert told["warnings"] == [each["message"] for each in told["checks"] if each["level"] == "warning"]
    return told


def test_where_all_is_well_nothing_is_found(shell: Shell, alpha: psutil.Process) -> None:
    (shell.directory / "stem.env").write_text("STEM_NAMESPACE=shop\n")
    told = diagnosis(shell, "--node", "alpha", *FILES, "--env-file", "stem.env", "--workdir", ".", code=0)
    assert (told["status"], told["errors"], told["warnings"]) == ("ok", [], [])
    assert [each["check"] for each in told["checks"]] == [
        "pid file", "log file", "workdir", "environment", "command", "signing keys", "TLS", "store", "clock",
    ]  # fmt: skip
    shown = shell.out("worker", "diagnose", "--pidfile", "run/alpha.pid")
    assert f"Process {alpha.pid} has been running" in shown and "SQLite" in shown


def test_diagnose_warns_of_settings_that_are_odd_but_work(shell: Shell, alpha: psutil.Process) -> None:
    kill(alpha)
    told = diagnosis(shell, "--pidfile", "run/alpha.pid", "--logfile", "deep/er/alpha.log", code=0)
    assert told["status"] == "warning"
    stale, folder = told["warnings"]
    assert "is stale" in stale and f"The folder {shell.directory}/deep/er does not exist" in folder


def test_diagnose_reports_what_keeps_a_worker_from_starting(shell: Shell) -> None:
    (shell.directory / "alpha.pid").write_text("what?")
    (shell.directory / "logs").mkdir()
    (shell.directory / "file").touch()
    (shell.directory / "stem.env").write_text("A=1\nB\n2C=3\nSTEM_SIGNING_KEYS=k1:hmac-sha256:geheim\n")
    files = ("--pidfile", "alpha.pid", "--logfile", "logs", "--workdir", "file/work", "--env-file", "stem.env")
    told = diagnosis(shell, *files, "--command", "stem-worker", code=70)
    expected = [
        "no process id on its first line",
        "logs is a folder",
        "file is not a folder",
        "Line 2 of",
        "Line 3 of",
        "The command stem-worker is not found",
        "Signing key 'k1'",
    ]
    assert len(told["errors"]) == len(expected)
    for sentence, error in zip(expected, told["errors"], strict=True):
        assert sentence in error
    assert "geheim" not in json.dumps(told)


def test_diagnose_reports_files_that_cannot_be_written(shell: Shell, unprivileged: Any) -> None:
    locked = shell.directory / "locked"
    locked.mkdir()
    (locked / "alpha.log").touch(mode=0o444)
    locked.chmod(0o555)
    words = ("--pidfile", "locked/run/alpha.pid", "--logfile", "locked/alpha.log")
    folder, log = diagnosis(shell, *words, code=70, preexec_fn=unprivileged)["errors"]
    assert f"The folder {locked} cannot be written to" in folder and "alpha.log cannot be written to" in log


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--command", "sh"), None),
        (("--command-line", "sh -c 'exit'"), None),
        (("--command", "bin/worker", "--workdir", "site"), None),
        (("--command", "bin/worker"), "The command bin/worker is not found"),
        (("--command", "site/stem.env"), "The command site/stem.env is not found"),
        (("--command-line", "sh -c 'exit"), "cannot be split into words"),
        (("--command", "sh", "--command-line", "sh"), "Name the command once"),
        (("--env-file", "site/stem.env"), "The command /no/such/worker is not found"),
    ],
)
def test_the_command_is_looked_for_where_the_worker_would(shell: Shell, words: tuple[str, ...], sentence: str) -> None:
    program = shell.directory / "site" / "bin" / "worker"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (shell.directory / "site" / "stem.env").write_text("STEM_WORKER_COMMAND=/no/such/worker\n")
    errors = diagnosis(shell, *words, code=70 if sentence else 0)["errors"]
    assert not errors if sentence is None else sentence in errors[0]


def test_a_store_that_cannot_be_reached_is_an_error_and_its_password_stays_secret(
    shell: Shell, closed_port: int
) -> None:
    url = f"redis://:geheim@127.0.0.1:{closed_port}/0"
    (shell.directory / "stem.env").write_text(f"STEM_BROKER_URL={url}\n")
    for words in (("--broker-url", url), ("--env-file", "stem.env")):
        told = diagnosis(shell, *words, code=70)
        (error,) = told["errors"]
        assert "127.0.0.1" in error and "geheim" not in json.dumps(told)


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("STEM_BROKER_URL", "memory://x", "lives in one process alone"),
        ("STEM_BROKER_URL", "ftp://x", "is not a store that Stem knows"),
        ("STEM_NAMESPACE", "a b", "'a b' is not 1 to 64 of letters"),
        ("STEM_STORE_TIMEOUT", "soon", "STEM_STORE_TIMEOUT='soon'"),
        ("STEM_SIGNING_KEYS", "@/no/such/file", "The signing keys should be in /no/such/file"),
        ("STEM_RESULT_BACKEND_URL", "ftp://x", "is not a store that Stem knows"),
    ],
)
def test_a_setting_that_will_not_do_is_an_error(shell: Shell, variable: str, value: str, sentence: str) -> None:
    (error,) = diagnosis(shell.at(**{variable: value}), code=70)["errors"]
    assert sentence in error


def test_a_redis_that_may_forget_is_warned_of(shell: Shell) -> None:
    server = RedisServer("--appendonly", "no", "--maxmemory-policy", "allkeys-lru")
    try:
        told = diagnosis(shell, "--broker-url", server.url, code=0)
    finally:
        server.close()
    evicts, forgets = told["warnings"]
    assert "maxmemory-policy allkeys-lru" in evicts and "appendonly yes" in forgets


def test_every_store_is_found_to_answer(stem: Shell) -> None:
    told = diagnosis(stem, code=0)
    (store,) = [each for each in told["checks"] if each["check"] == "store"]
    assert store["level"] == "ok" and " answers: " in store["message"]


@pytest.mark.parametrize(
    ("skew", "level", "sentence"),
    [
        (0.0, "ok", "s from the store's"),
        (1.5, "ok", "s from the store's"),
        (60.0, "warning", "is 60.0 s behind the store's"),
        (-60.0, "warning", "is 60.0 s ahead of the store's"),
    ],
)
def test_a_clock_that_differs_from_the_stores_is_warned_of(
    tmp_path: Path, skew: float, level: str, sentence: str
) -> None:
    import time

    store = connect(f"sqlite:///{tmp_path}/stem.db", Settings(), clock=lambda: time.time() + skew)
    try:
        # More than once: a machine that does something else between two looks at a clock has a skew by that alone.
        found = [clock(store) for _ in range(20)]
    finally:
        store.upkeep.close()
    assert any(each.level == level and sentence in each.message for each in found), found


def test_a_stopped_worker_still_has_a_process(shell: Shell, alpha: psutil.Process) -> None:
    """Whether it answers is for `stem worker ping` to say."""
    os.kill(alpha.pid, signal.SIGSTOP)
    assert probe(shell, "--pidfile", "run/alpha.pid")[0] == 0
