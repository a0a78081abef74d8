"""Log lines: whoever writes one never waits, what is dropped is told, and no line can pass for another."""

import json
import logging
import os
import re
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from stem.runtime.log import JsonFormatter, LogWriter, TextFormatter

log = logging.getLogger("stem.worker")
output = logging.getLogger("stem.task")


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of these read what is written, be the machine ever so busy."""
    monkeypatch.setattr(LogWriter, "CLOSE_SECONDS", 30.0)


def record(message: str, *values: object, name: str = "stem.worker", **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.INFO, __file__, 1, message, values, fields.pop("exc_info", None))
    made.created = 1_800_000_000.25
    vars(made).update(fields)
    return made


def read(descriptor: int) -> list[str]:
    return os.read(descriptor, 1 << 16).decode().splitlines()


def test_all_that_was_logged_is_written_by_the_time_it_closes(pipe: tuple[int, int]) -> None:
    with LogWriter("info", "text", descriptor=pipe[1]):
        for number in range(100):
            log.info("number=%d", number)
        log.debug("not wanted")
    assert [line.rpartition(" ")[2] for line in read(pipe[0])] == [f"number={number}" for number in range(100)]


def test_the_loggers_are_afterwards_as_they_were(pipe: tuple[int, int]) -> None:
    before = (logging.getLogger().level, output.level, list(logging.getLogger().handlers))
    with LogWriter("error", "text", descriptor=pipe[1]):
        assert logging.getLogger().level == logging.ERROR
    assert (logging.getLogger().level, output.level, list(logging.getLogger().handlers)) == before


def test_a_thread_that_crashes_is_logged_like_everything_else(pipe: tuple[int, int]) -> None:
    with LogWriter("info", "json", descriptor=pipe[1]):
        thread = Thread(target=lambda: 1 / 0, name="pruner")
        thread.start()
        thread.join()
    (line,) = read(pipe[0])
    told = json.loads(line)
    assert (told["event"], told["message"], told["level"]) == (
        "thread.crashed",
        "thread.crashed name=pruner",
        "critical",
    )
    assert "ZeroDivisionError" in told["stack"]


def test_output_of_tasks_is_logged_at_any_log_level(pipe: tuple[int, int]) -> None:
    with LogWriter("error", "text", descriptor=pipe[1]):
        log.warning("not wanted")
        output.info("hello", extra={"task_id": "t1"})
    (line,) = read(pipe[0])
    assert line.endswith(" INFO task.output id=t1 hello")


def test_with_nobody_reading_lines_are_dropped_and_counted_and_the_count_is_told(pipe: tuple[int, int]) -> None:
    text = ""
    with LogWriter("info", "text", descriptor=pipe[1], most_waiting=10) as writer:
        for number in range(5000):  # returns, though the pipe holds but a part of it
            log.info("number=%d %s", number, "x" * 100)
        while writer.waiting:
            text += os.read(pipe[0], 1 << 16).decode()
        log.info("and on")
        while "and on\n" not in text:
            text += os.read(pipe[0], 1 << 16).decode()
    counts = re.findall(r"WARNING log\.dropped lines=(\d+)", text)
    assert counts
    assert text.count("number=") + sum(map(int, counts)) == 5000


def test_text_is_a_line_with_moment_and_level() -> None:
    text = TextFormatter().format(record("worker.started name=%s", "w1"))
    assert text == "2027-01-15T08:00:00.250Z INFO worker.started name=w1"


def test_output_that_no_task_has_marked_says_so() -> None:
    assert TextFormatter().format(record("hm", name="stem.task", task_id="")).endswith("INFO task.output id=- hm")


def test_no_control_character_reaches_the_terminal() -> None:
    text = TextFormatter().format(record("a\rb\x1b[2Jc\n2027 INFO forged\td", name="stem.task", task_id="t1"))
    assert text.endswith("id=t1 a\\rb\\x1b[2Jc\\n2027 INFO forged\td")


def test_json_has_the_event_the_task_and_the_traceback() -> None:
    try:
        raise ValueError("no")
    except ValueError as error:
        line = JsonFormatter().format(record("task.odd: it\nbroke", task_id="t1", exc_info=(ValueError, error, None)))
    read = json.loads(line)
    assert "\n" not in line
    assert read["event"] == "task.odd" and read["message"] == "task.odd: it\nbroke" and read["taskId"] == "t1"
    assert read["stack"] == "ValueError: no"
