"""What scripts and screens get: stable JSON, whole ids, colour only on a terminal, help at once."""

import os
import pty
import signal
import subprocess
from typing import Any

from acceptance.shell import STEM, Shell
from stem.backends import connect
from stem.contracts.store import Store
from stem.core.heartbeat import Heartbeat
from stem.core.settings.app import Settings
from support.stores.calls import fail_for_good

RECORD = {
    "id", "name", "queue", "status", "attempt", "fence", "priority", "payload", "error", "meta", "worker",
    "enqueuedAt", "startedAt", "finishedAt", "heartbeatAt", "updatedAt", "state",
}  # fmt: skip
LETTER = {"id", "name", "queue", "attempts", "reason", "error", "meta", "deadAt", "worker", "args", "replay"}


def test_json_names_are_camel_case_and_stay(stem: Shell, durable_store: Store) -> None:
    fail_for_good(durable_store, "a")
    assert set(stem.json("enqueue", "demo.add", "--queue", "q2")) == {"id", "created"}
    assert set(stem.json("task", "show", "a")) == RECORD | {"args", "dueAt", "durationSeconds", "steps"}
    tasks = stem.json("task", "list")
    assert set(tasks) == {"tasks", "cursor"} and all(set(task) == RECORD for task in tasks["tasks"])
    letters = stem.json("dlq", "list")
    assert set(letters) == {"deadLetters", "cursor", "note"} and set(letters["deadLetters"][0]) == LETTER
    assert set(stem.json("dlq", "show", "a")) == LETTER | {"note"}
    peeked = stem.json("queue", "peek", "q2")
    assert set(peeked) == {"queue", "tasks"}
    assert set(peeked["tasks"][0]) == {"id", "name", "queue", "priority", "attempt", "dueAt", "args"}


def test_health_reports_stores_workers_and_depths(stem: Shell, durable_store: Store, namespace: str) -> None:
    fail_for_good(durable_store, "a")
    beat = Heartbeat(
        worker_id="w1",
        namespace=namespace,
        host="h",
        pid=7,
        uptime_seconds=1.0,
        concurrency=4,
        in_flight=2,
        queues=["x"],
    )
    durable_store.heartbeats.beat(beat, ttl_seconds=60)
    report = stem.json("health")
    assert set(report) == {
        "status", "namespace", "broker", "results", "revokes", "signing", "tls", "workers", "queues",
    }  # fmt: skip
    assert report["status"] == "ok" and report["namespace"] == namespace
    assert set(report["broker"]) == {"url", "backend", "server", "latencySeconds", "warnings"}
    assert [worker["workerId"] for worker in report["workers"]] == ["w1"]
    assert report["queues"][0]["dead"] == 1
    shown = stem.out("health")
    assert "w1" in shown and report["broker"]["server"] in shown


def test_flag_goes_before_environment_before_default(shell: Shell) -> None:
    elsewhere = shell.at(STEM_BROKER_URL="sqlite:///env.db", STEM_NAMESPACE="env")
    shell.out("enqueue", "a")
    elsewhere.out("enqueue", "b")
    elsewhere.out("enqueue", "c", "--broker-url", "sqlite:///flag.db", "--namespace", "flag")
    names = [
        [task["name"] for task in connect_and_list(shell, path, namespace)]
        for path, namespace in (("stem.db", "stem"), ("env.db", "env"), ("flag.db", "flag"))
    ]
    assert names == [["a"], ["b"], ["c"]]


def test_tasks_are_read_from_the_result_store(shell: Shell) -> None:
    apart = shell.at(STEM_BROKER_URL="sqlite:///broker.db", STEM_RESULT_BACKEND_URL="sqlite:///results.db")
    id = apart.out("enqueue", "a")
    assert apart.json("task", "show", id)["status"] == "queued"
    report = apart.json("health")
    assert "results.db" in report["results"]["url"] and "broker.db" in report["broker"]["url"]


def test_looking_at_results_through_another_broker_changes_nothing(shell: Shell) -> None:
    both = ("--broker-url", "sqlite:///broker.db", "--results-url", "sqlite:///results.db")
    id = shell.out("enqueue", "a", *both)
    assert id in shell.out("task", "list", "--results-url", "sqlite:///results.db")
    assert "is still queued" in shell.refusal("task", "result", id, *both, code=70)


def test_one_store_named_twice_is_one(shell: Shell) -> None:
    there = ("--broker-url", "sqlite:///stem.db", "--results-url", f"sqlite:///{shell.directory}/./stem.db")
    shell.out("enqueue", "a", *there)
    assert "results    with the broker" in shell.out("health", *there)
    assert shell.json("queue", "list")["queues"][0]["ready"] == 1


def test_results_are_read_without_the_signing_keys(shell: Shell) -> None:
    id = shell.out("enqueue", "a")
    without = shell.at(STEM_SIGNING_KEYS="@/nowhere/keys")
    assert without.json("task", "show", id)["status"] == "queued"


def test_a_terminal_gets_ansi_and_whole_ids_and_no_color_means_none(shell: Shell) -> None:
    id = shell.out("enqueue", "demo.add")
    code, screen = on_a_terminal(shell, "task", "list")
    assert (code, id in screen, "\x1b[" in screen) == (0, True, True)
    code, screen = on_a_terminal(shell.at(NO_COLOR="1"), "task", "list")
    assert (code, id in screen, "\x1b" in screen) == (0, True, False)
    assert "\x1b" not in shell.at(FORCE_COLOR="1").out("task", "list")


def test_the_output_of_a_task_cannot_control_the_terminal(shell: Shell) -> None:
    shell.out("enqueue", "a", "--meta", "x=\x1b[31mred\x07")
    for words in (("task", "list"), ("task", "show", shell.json("task", "list")["tasks"][0]["id"])):
        assert "\x1b" not in shell.out(*words)


def test_purge_asks_at_a_terminal(shell: Shell) -> None:
    shell.out("enqueue", "a")
    code, screen = on_a_terminal(shell, "queue", "purge", "default", answer="n\n")
    assert (code, "Nothing was cancelled" in screen) == (0, True)
    code, screen = on_a_terminal(shell, "queue", "purge", "default", answer="y\n")
    assert (code, "Cancelled 1 in default" in screen) == (0, True)


def test_every_command_has_help_with_an_example(shell: Shell) -> None:
    assert shell.out() == shell.out("--help")
    assert shell.out("--help").count("\n  stem ") == 4
    for words in (
        "enqueue", "task", "task show", "task list", "task result", "queue", "queue list", "queue peek", "queue purge",
        "dlq", "dlq list", "dlq show", "dlq replay", "dlq purge", "health", "worker", "worker start",
    ):  # fmt: skip
        assert f"Example: stem {words.split()[0]}" in shell.out(*words.split(), "--help"), words
    assert shell.out("--version").startswith("stem ")


def test_help_takes_under_200_ms(shell: Shell) -> None:
    assert shell.cpu_seconds("--help", under=0.2) < 0.2  # it waits for nothing


def test_python_dash_m_is_the_same_command(shell: Shell) -> None:
    assert shell.paste("python -m stem --version").stdout.strip() == shell.out("--version")


def test_a_closed_pipe_is_quiet(shell: Shell) -> None:
    shell.paste(
        "for i in 1 2 3; do stem enqueue demo.add --args '{\"x\": \"'$(head -c 60000 /dev/zero | tr '\\0' x)'\"}'; done"
    )
    piped = shell.paste("stem queue peek default --json | head -c 10")
    assert (piped.returncode, piped.stderr) == (0, "")


def test_a_closed_stream_leads_nowhere_and_stops_nothing(shell: Shell) -> None:
    for words in ("stem enqueue a >&-", "stem task list >&-", "stem enqueue b <&- >&- 2>&-", "stem health --json >&-"):
        done = shell.paste(words)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), words
    assert sorted(task["name"] for task in shell.json("task", "list")["tasks"]) == ["a", "b"]


def test_control_c_while_waiting_exits_130_quietly(shell: Shell) -> None:
    id = shell.out("enqueue", "never")
    command = [STEM, "enqueue", "never", "--id", id, "--wait", "60"]
    with subprocess.Popen(
        command, cwd=shell.directory, env=shell.variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline().strip() == id  # from here on it waits
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (130, "")


def connect_and_list(shell: Shell, path: str, namespace: str) -> list[dict[str, Any]]:
    store = connect(f"sqlite:///{shell.directory}/{path}", Settings(namespace=namespace))
    store.upkeep.close()
    words = ("task", "list", "--broker-url", f"sqlite:///{path}", "--namespace", namespace)
    tasks: list[dict[str, Any]] = shell.json(*words)["tasks"]
    return tasks


def on_a_terminal(shell: Shell, *words: str, answer: str = "") -> tuple[int, str]:
    """Exit code and everything on the screen."""
    ours, theirs = pty.openpty()
    variables = shell.variables | {"TERM": "xterm", "COLUMNS": "60"}
    with subprocess.Popen(
        [STEM, *words], cwd=shell.directory, env=variables, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        os.write(ours, answer.encode())
        screen = b""
        while chunk := _read(ours):
            screen += chunk
        process.wait(10)
    os.close(ours)
    return process.returncode, screen.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says EIO when the last holder of the other end has left
        return b""
