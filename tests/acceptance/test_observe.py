"""`stem observe`: the events of other processes as they happen, and tables of what is."""

import json
import os
import pty
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from acceptance.lab import Lab
from acceptance.shell import STEM, Shell
from stem import Stem, chain
from stem.contracts.schedules import ScheduleEntry, ScheduleState
from stem.contracts.store import Store
from stem.core.heartbeat import Heartbeat
from stem.core.record import moment
from stem.core.settings.app import Settings
from stem.worker.supervisor import Worker
from support.background import takes_less_than
from support.builders import a_push, dead, retry
from support.stores.calls import WORKER, fail_for_good, push_and_claim
from support.until import until

ID = "0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00"
LONG = "shop.warehouse.inventory.synchronise_with_supplier"
QUEUE = "long.queue.of.the.warehouse"
NOUNS = ("queues", "workers", "schedules", "retries", "dlq", "tasks", "canvas")


class Observer:
    """`stem observe … --follow`, and the lines that it has printed."""

    def __init__(self, shell: Shell, *words: str) -> None:
        self._file = shell.directory / f"observed-{os.urandom(4).hex()}"
        with self._file.open("wb") as out:
            self.process = subprocess.Popen(
                [STEM, "observe", *words, "--follow"], cwd=shell.directory, env=shell.variables, stdout=out, stderr=out
            )

    @property
    def lines(self) -> list[str]:
        whole, _, _ = self._file.read_text().rpartition("\n")
        return whole.splitlines()

    @property
    def shapes(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


@contextmanager
def observer(shell: Shell, *words: str) -> Iterator[Observer]:
    opened = Observer(shell, *words)
    try:
        yield opened
    finally:
        opened.process.kill()
        opened.process.wait()


@pytest.fixture
def busy(local_store: Store) -> Store:
    """One of each: a dead letter, a task that waits for its retry, a worker, a schedule; all with long names."""
    died = push_and_claim(local_store, a_push(ID, name=LONG, queue=QUEUE))
    local_store.broker.settle([dead(died)], worker=WORKER)
    again = push_and_claim(local_store, a_push(ID[:-1] + "1", name=LONG, queue=QUEUE))
    local_store.broker.settle([retry(again, 90.0)], worker=WORKER)
    beat = Heartbeat(
        worker_id="alpha@web-server-17.example.com", namespace="stem", host="web-server-17.example.com", pid=31337,
        uptime_seconds=7200.0, concurrency=4, in_flight=2, queues=["default", QUEUE],
        counters={"succeeded": 1234567, "failed": 12, "revoked": 7}, extras={"autoscale": {"min": 2, "max": 12}},
    )  # fmt: skip
    local_store.heartbeats.beat(beat, ttl_seconds=60)
    entry = ScheduleEntry(id="nightly-synchronisation", task=LONG, spec="0 2 * * *")
    due_at = moment(local_store.upkeep.now()) + timedelta(hours=3)
    local_store.schedules.write(entry, ScheduleState(instant=due_at), revision=0)
    return local_store


def test_progress_of_a_task_is_seen_elsewhere_within_a_second(any_lab: Lab) -> None:
    any_lab.start()
    with observer(any_lab.shell, "events", "--json", "--kind", "progress", "--since", "1h") as seen:
        warm = any_lab.desk.send("forty", mark="warm")
        until(lambda: warm in [event["taskId"] for event in seen.shapes], seconds=30)

        def slowest() -> float:
            task = any_lab.desk.send("forty")
            (event,) = until(lambda: [each for each in seen.shapes if each["taskId"] == task], seconds=30)
            assert event["data"]["fraction"] == 0.4
            told_at = float((any_lab.shell.directory / f"told-{task}").read_text())
            return time.time() - told_at

        takes_less_than(1.0, slowest)
        record = any_lab.desk.record(warm)
        assert record.meta["progress"]["fraction"] == 0.4 and record.heartbeat_at is not None


def test_events_are_filtered_and_dated_relatively(shell: Shell, local_store: Store) -> None:
    fail_for_good(local_store, ID)
    local_store.broker.push([a_push("other", name="mail.send", queue="mail")])
    printed = shell.out("observe", "events", "--id", ID)
    assert printed.count(ID) == 4 and "ValueError: boom" in printed
    assert "now" in printed or "s ago" in printed
    assert max(map(len, printed.splitlines())) <= 80
    (event,) = shell.json("observe", "events", "--task", "mail.send")["events"]
    assert (event["taskId"], event["kind"]) == ("other", "enqueued")
    assert [
        each["taskId"] for each in shell.json("observe", "events", "--queue", "mail", "--since", "1h")["events"]
    ] == ["other"]
    assert shell.out("observe", "events", "--kind", "expired") == "No event matches."


def test_following_begins_with_what_was_asked_for_and_shows_each_event_once(shell: Shell, local_store: Store) -> None:
    local_store.broker.push([a_push("before")])
    with (
        observer(shell, "events", "--json", "--since", "1h") as all_of_them,
        observer(shell, "events", "--json") as new,
    ):
        until(lambda: len(all_of_them.lines) == 1)
        numbers = iter(range(1000))
        until(lambda: local_store.broker.push([a_push(f"after-{next(numbers)}")]) or new.lines, every=0.2, seconds=30)
        until(lambda: len(all_of_them.lines) > 1)
    ids = [event["taskId"] for event in all_of_them.shapes]
    assert ids == sorted(set(ids), key=ids.index) and ids[:2] == ["before", "after-0"]
    assert "before" not in [event["taskId"] for event in new.shapes]


@pytest.mark.parametrize("noun", NOUNS)
@pytest.mark.usefixtures("busy")
def test_tables_fit_80_columns(shell: Shell, noun: str) -> None:
    lines = shell.out("observe", noun).splitlines()
    assert max(map(len, lines)) <= 80, "\n".join(lines)
    assert (len(lines) > 1) == (noun != "canvas")


@pytest.mark.usefixtures("busy")
def test_scripts_read_what_people_see(shell: Shell) -> None:
    (worker,) = shell.json("observe", "workers")["workers"]
    assert (worker["concurrency"], worker["revoked"], worker["autoscale"]) == (4, 7, {"min": 2, "max": 12})
    assert worker["uptimeSeconds"] == 7200.0
    (waiting,) = shell.json("observe", "retries")["retries"]
    assert waiting["dueAt"] and waiting["error"]["type"] == "ValueError"
    assert re.search(r"in (8\ds|90s|1m)", shell.out("observe", "retries"))
    (group,) = shell.json("observe", "dlq")["groups"]
    assert (group["count"], group["errorType"], group["newest"]) == (1, "ValueError", ID)
    (schedule,) = shell.json("observe", "schedules")["schedules"]
    assert (schedule["id"], schedule["state"]) == ("nightly-synchronisation", "on")
    assert {queue["queue"] for queue in shell.json("observe", "queues")["queues"]} >= {QUEUE}
    assert len(shell.json("observe", "tasks")["tasks"]) == 2


def test_a_canvas_shows_how_far_it_is(shell: Shell) -> None:
    with Stem(f"sqlite:///{shell.directory}/stem.db", settings=Settings()) as app:
        work = app.task(name="work")(lambda: None)
        handle = chain(work.si(), work.si()).submit()
        (found,) = shell.json("observe", "canvas")["canvases"]
        assert (found["id"], found["total"], found["state"]) == (handle.id, 2, "queued")
        with Worker(app, in_process=True):
            handle.get(20)
    assert "2 of 2" in shell.out("observe", "canvas") and "succeeded" in shell.out("observe", "canvas")


def test_without_a_terminal_changes_are_lines(shell: Shell, local_store: Store) -> None:
    with observer(shell, "tasks", "--json") as shapes, observer(shell, "queues") as lines:
        until(lambda: shapes.process.poll() is None and local_store.broker.push([a_push("one")]) is not None)
        until(lambda: [each["id"] for each in shapes.shapes] == ["one"] and lines.lines, seconds=30)
        assert lines.lines[0].startswith("queue=default  ready=1")
        taken = local_store.broker.claim(["default"], limit=1, lease_seconds=60)
        local_store.broker.settle([dead(taken[0])], worker=WORKER)
        until(lambda: len(shapes.lines) == 2, seconds=30)
        assert shapes.shapes[1]["state"] == "failed"


@pytest.mark.usefixtures("busy")
def test_a_terminal_is_redrawn_in_colours_unless_they_are_unwanted(shell: Shell) -> None:
    red = "\x1b[31mfailed"
    assert red in on_a_terminal(shell, "observe", "tasks")
    plain = on_a_terminal(shell.at(NO_COLOR="1"), "observe", "tasks")
    assert "failed" in plain and "\x1b[3" not in plain
    twice = on_a_terminal(shell, "observe", "tasks", "--follow", enough=lambda text: text.count(red) >= 2)
    assert "\x1b[2J" in twice


def test_following_shows_the_newest_rows_that_the_terminal_holds(shell: Shell, local_store: Store) -> None:
    for number in range(40):
        local_store.broker.push([a_push(f"task-{number}")])
    small = shell.at(LINES="24")
    drawn = on_a_terminal(
        small, "observe", "tasks", "--limit", "40", "--follow", enough=lambda text: text.count(" more\r\n") >= 2
    )
    lines = drawn.split("\x1b[2J")[1].splitlines()
    assert len(lines) < 24 and "task-39" in lines[1]
    assert lines[-1] == f"and {40 - len(lines[1:-1])} more"


def test_followed_events_have_the_time_of_day(shell: Shell, local_store: Store) -> None:
    local_store.broker.push([a_push("before")])
    with observer(shell, "events", "--since", "1h") as seen:
        (line,) = until(lambda: seen.lines, seconds=30)
    assert re.match(r"\d\d:\d\d:\d\d  enqueued ", line)


def on_a_terminal(shell: Shell, *words: str, enough: Callable[[str], bool] | None = None) -> str:
    """What a command prints there until it ends, or until that is enough."""
    ours, theirs = pty.openpty()
    variables = shell.variables | {"TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen([STEM, *words], cwd=shell.directory, env=variables, stdin=theirs, stdout=theirs)
    os.close(theirs)
    text = ""
    try:
        while enough is None or not enough(text):
            text += os.read(ours, 65536).decode()
    except OSError:  # the other end is closed
        pass
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return text
