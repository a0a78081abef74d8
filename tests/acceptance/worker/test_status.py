"""`stem worker status`: what the workers last said of themselves."""

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from acceptance.serving import Serving
from acceptance.shell import STEM, Shell
from stem.backends.sqlite import connect
from stem.contracts.store import Store
from stem.core.heartbeat import Heartbeat
from stem.core.settings.app import Settings
from support.until import until

SHOP = "from stem import Stem\n\napp = Stem()\n\n\n@app.task(name='one')\ndef one() -> int:\n    return 1\n"


def a_beat(worker: str, *, uptime_seconds: float = 2.5, **extras: Any) -> Heartbeat:
    return Heartbeat(
        worker_id=worker,
        namespace="stem",
        host="web1",
        pid=7,
        uptime_seconds=uptime_seconds,
        concurrency=4,
        in_flight=3,
        queues=["default", "mail"],
        memory_bytes=50 * 2**20,
        counters={"succeeded": 12, "failed": 0},
        extras=extras,
    )


@contextmanager
def following(shell: Shell, *words: str) -> "Iterator[subprocess.Popen[str]]":
    """Interrupted at the end, which is quiet."""
    command = [STEM, "worker", "status", "--follow", *words]
    process = subprocess.Popen(
        command, cwd=shell.directory, env=shell.variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
        assert (process.returncode, errors) == (130, "")
    finally:
        process.kill()
        process.wait()


def next_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def next_report(process: "subprocess.Popen[str]") -> dict[str, Any]:
    told: dict[str, Any] = json.loads(next_line(process))
    return told


def test_a_worker_is_listed_on_every_store_and_gone_when_it_has_stopped(stem: Shell) -> None:
    (stem.directory / "shop.py").write_text(SHOP)
    stem.out("enqueue", "unknown", "--queue", "aside")  # makes the store
    assert stem.out("worker", "status") == "No worker is running."
    with Serving(stem, "--app", "shop:app", "--name", "alpha@web1", "--concurrency", "1") as worker:
        worker.says("worker.started")
        until(lambda: stem.json("worker", "status")["workers"], seconds=30)
        (told,) = stem.json("worker", "status", "--worker", "alpha@web1")["workers"]
        assert (told["workerId"], told["pid"], told["state"]) == ("alpha@web1", worker.process.pid, "ok")
        assert told["ageSeconds"] < 15 and told["concurrency"] == 1 and told["queues"] == ["default"]
        assert told["memoryBytes"] > 0
        assert worker.end() == 0
    assert stem.json("worker", "status") == {"workers": []}
    assert "No worker alpha@web1 is known" in stem.refusal("worker", "status", "--worker", "alpha@web1", code=1)


def test_the_table_says_who_where_and_how(shell: Shell, local_store: Store) -> None:
    local_store.heartbeats.beat(a_beat("alpha"), ttl_seconds=60)
    head, row = shell.out("worker", "status").splitlines()
    assert head.split() == ["worker", "host", "pid", "state", "age", "running", "queues", "memory", "counters"]
    worker, host, pid, state, _age, *rest = row.split()
    assert (worker, host, pid, state) == ("alpha", "web1", "7", "ok")
    assert rest == ["3/4", "default,mail", "50MiB", "succeeded:12"]


@pytest.mark.parametrize(
    ("extras", "age_seconds", "state"),
    [
        ({}, 0, "ok"),
        ({}, 8, "ok"),
        ({}, 17, "late"),
        ({}, 27, "dead"),
        ({"beatSeconds": 60.0}, 27, "ok"),
        ({"beatSeconds": 4.0}, 11, "dead"),
        ({"state": "draining"}, 8, "draining"),
        ({"state": "draining"}, 17, "late"),
    ],
)
def test_a_worker_is_what_it_says_until_its_heartbeats_are_missing(
    shell: Shell, extras: dict[str, Any], age_seconds: float, state: str
) -> None:
    """Written by a store whose clock was then."""
    then = connect(f"sqlite:///{shell.directory}/stem.db", Settings(), clock=lambda: time.time() - age_seconds)
    then.heartbeats.beat(a_beat("alpha", **extras), ttl_seconds=600)
    then.upkeep.close()
    (told,) = shell.json("worker", "status")["workers"]
    assert told["state"] == state
    assert told["ageSeconds"] >= age_seconds


def test_the_namespace_is_that_of_the_tasks_or_that_under_which_workers_listen(
    shell: Shell, local_store: Store
) -> None:
    local_store.heartbeats.beat(a_beat("alpha", controlNamespace="stem"), ttl_seconds=60)
    local_store.heartbeats.beat(a_beat("beta", controlNamespace="ops"), ttl_seconds=60)
    other = connect(f"sqlite:///{shell.directory}/stem.db", Settings(namespace="other"))
    other.heartbeats.beat(a_beat("gamma", controlNamespace="other"), ttl_seconds=60)
    other.upkeep.close()

    def listed(*words: str) -> list[str]:
        return [each["workerId"] for each in shell.json("worker", "status", *words)["workers"]]

    assert listed() == ["alpha", "beta"]
    assert listed("--namespace", "ops") == ["beta"]
    assert listed("--namespace", "other") == ["gamma"]
    assert listed("--namespace", "nobody") == []


def test_only_the_workers_that_are_named_are_shown_and_all_must_be_known(shell: Shell, local_store: Store) -> None:
    for worker in ("alpha", "beta", "gamma"):
        local_store.heartbeats.beat(a_beat(worker), ttl_seconds=60)
    told = shell.json("worker", "status", "--worker", "gamma", "--worker", "alpha")["workers"]
    assert [each["workerId"] for each in told] == ["alpha", "gamma"]
    refusal = shell.refusal("worker", "status", "--worker", "alpha", "--worker", "delta", code=1)
    assert refusal == "No worker delta is known in namespace stem; see which are with: stem worker status"
    assert "in namespace other" in shell.refusal(
        "worker", "status", "--worker", "alpha", "--namespace", "other", code=1
    )
    assert "No worker delta" in shell.refusal("worker", "status", "--worker", "delta", "--follow", code=1)


def test_followed_as_json_each_heartbeat_is_a_line_until_interrupted(shell: Shell, local_store: Store) -> None:
    local_store.heartbeats.beat(a_beat("alpha"), ttl_seconds=60)
    local_store.heartbeats.beat(a_beat("other"), ttl_seconds=60)
    with following(shell, "--json", "--worker", "alpha") as process:
        assert next_report(process)["uptimeSeconds"] == 2.5
        local_store.heartbeats.beat(a_beat("other", uptime_seconds=3), ttl_seconds=60)
        local_store.heartbeats.beat(a_beat("alpha", uptime_seconds=12.5), ttl_seconds=60)
        told = next_report(process)
        assert (told["workerId"], told["uptimeSeconds"], told["state"]) == ("alpha", 12.5, "ok")
        local_store.heartbeats.forget("alpha")
        told = next_report(process)
        assert (told["workerId"], told["state"]) == ("alpha", "gone")


def test_followed_into_a_pipe_each_heartbeat_is_a_line_of_text(shell: Shell, local_store: Store) -> None:
    local_store.heartbeats.beat(a_beat("alpha"), ttl_seconds=60)
    with following(shell) as process:
        assert next_line(process).startswith("worker=alpha  host=web1  pid=7  state=ok  age=")
        local_store.heartbeats.beat(a_beat("beta"), ttl_seconds=60)
        assert next_line(process).startswith("worker=beta ")


def test_a_worker_that_falls_silent_is_told_when_it_does(shell: Shell, local_store: Store) -> None:
    """Followed through the moment at which its last heartbeat becomes too old."""
    then = connect(f"sqlite:///{shell.directory}/stem.db", Settings(), clock=lambda: time.time() - 12)
    local_store.heartbeats.beat(a_beat("alpha"), ttl_seconds=60)
    with following(shell, "--json") as process:
        assert next_report(process)["state"] == "ok"
        then.heartbeats.beat(a_beat("alpha", uptime_seconds=3), ttl_seconds=60)
        then.upkeep.close()
        told = next_report(process)["state"]
        assert (told if told == "late" else next_report(process)["state"]) == "late"


def test_on_a_screen_the_table_is_drawn_anew(shell: Shell, local_store: Store) -> None:
    local_store.heartbeats.beat(a_beat("alpha"), ttl_seconds=60)
    ours, theirs = pty.openpty()
    command = [STEM, "worker", "status", "--follow"]
    process = subprocess.Popen(
        command,
        cwd=shell.directory,
        env=shell.variables | {"TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        screen = ""
        while screen.count("\x1b[2J") < 2:
            screen += os.read(ours, 65536).decode()
        assert "alpha" in screen
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
    finally:
        process.kill()
        process.wait()
        os.close(ours)
