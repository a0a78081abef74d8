"""What the worker's log says of tasks: each success, each failure with its traceback, and what tasks log themselves."""

import pytest

from acceptance.serving import Serving
from acceptance.shell import Shell

SHOP = """
import logging

from stem import Fixed, Stem

app = Stem()


@app.task(name="add", queue="sums")
def add(a: int, b: int) -> int:
    return a + b


@app.task(name="divide", max_retries=1, retry=Fixed(0.001))
def divide(a: int) -> float:
    return a / 0


@app.task(name="speak")
def speak() -> None:
    logging.getLogger("shop").error("shouted")
    logging.getLogger("shop").info("two\\nlines")
    try:
        1 / 0
    except ZeroDivisionError:
        logging.getLogger("shop").exception("broken")


@app.task(name="late")
def late() -> None:
    "Sets up its logging when it runs."
    logging.basicConfig(force=True, format="late: %(message)s")
    logging.warning("set up")
"""


@pytest.fixture
def shop(shell: Shell) -> Shell:
    (shell.directory / "shop.py").write_text(SHOP)
    return shell.at(STEM_APP="shop:app")


def test_a_success_is_one_line_with_name_id_and_duration(shop: Shell) -> None:
    id = shop.out("enqueue", "add", "--arg", "a=1", "--arg", "b=2")
    with Serving(shop, "--log-format", "json", "--name", "w1") as worker:
        worker.says("task.succeeded")
        assert worker.end() == 0
        (line,) = [line for line in worker.lines if line["event"] == "task.succeeded"]
    seconds = line["seconds"]
    assert 0 <= seconds < 30
    assert (line["taskId"], line["name"], line["attempt"], line["queue"], line["worker"]) == (
        id,
        "add",
        0,
        "sums",
        "w1",
    )
    assert (line["level"], line["message"]) == (
        "info",
        f"task.succeeded id={id} name=add attempt=0 seconds={seconds:.4f}",
    )


def test_lines_about_successes_can_be_turned_off(shop: Shell) -> None:
    shop.out("enqueue", "add", "--arg", "a=1", "--arg", "b=2")
    with Serving(shop, "--no-log-tasks") as worker:
        worker.says("worker.started")
        shop.out("task", "result", shop.out("enqueue", "add", "--arg", "a=1", "--arg", "b=2"), "--wait", "30s")
        assert worker.end() == 0
        assert "task.succeeded" not in worker.log
        assert "worker.stopped succeeded=2" in worker.log


def test_above_fifty_a_second_successes_are_summed_up(shop: Shell) -> None:
    (shop.directory / "many.py").write_text(
        "from shop import add, app\nadd.enqueue_many([{'a': n, 'b': 1} for n in range(2000)])\n"
    )
    assert shop.paste("python many.py").returncode == 0
    with Serving(shop) as worker:
        worker.says("tasks.succeeded count=")
        assert worker.end() == 0
        one_by_one = worker.log.count(" task.succeeded ")
        summed = sum(int(part.split(",")[0]) for part in worker.log.split("tasks.succeeded count=")[1:])
        done = int(worker.log.split("worker.stopped")[1].partition("succeeded=")[2].split()[0])
    assert one_by_one + summed == done
    assert one_by_one < done


def test_each_failure_brings_its_traceback_once(shop: Shell) -> None:
    id = shop.out("enqueue", "divide", "--arg", "a=7")
    with Serving(shop, "--log-format", "json", "--name", "w1") as worker:
        worker.says("task.dead")
        assert worker.end() == 0
        retried, dead = (line for line in worker.lines if line["event"] in ("task.retried", "task.dead"))
    for line, attempt, level in ((retried, 0, "warning"), (dead, 1, "error")):
        assert (line["taskId"], line["attempt"], line["level"]) == (id, attempt, level)
        assert line["stack"].startswith("Traceback (most recent call last):\n")
        assert line["stack"].count("return a / 0") == 1
    assert (dead["reason"], dead["name"], dead["queue"], dead["worker"]) == (
        "retries-exhausted",
        "divide",
        "default",
        "w1",
    )


def test_in_a_text_log_the_traceback_stands_below_its_line(shop: Shell) -> None:
    id = shop.out("enqueue", "divide", "--arg", "a=7", "--max-retries", "0")
    with Serving(shop) as worker:
        worker.says("ZeroDivisionError: division by zero\n")
        lines = worker.log.splitlines()
    at = next(number for number, line in enumerate(lines) if f" ERROR task.dead id={id}" in line)
    assert lines[at + 1] == "  Traceback (most recent call last):"
    assert any("return a / 0" in line for line in lines[at + 2 : at + 6])


def test_the_log_record_of_a_task_keeps_its_level_and_stays_one_record(shop: Shell) -> None:
    id = shop.out("enqueue", "speak")
    with Serving(shop, "--log-format", "json", "--name", "w1") as worker:
        worker.says("task.succeeded")
        assert worker.end() == 0
        shouted, said, broken = (line for line in worker.lines if line["event"] == "task.output")
    assert (shouted["level"], shouted["message"]) == ("error", "shop: shouted")
    assert (said["level"], said["message"]) == ("info", "shop: two\nlines")
    assert (broken["level"], broken["message"]) == ("error", "shop: broken")
    assert broken["stack"].startswith("Traceback (most recent call last):\n")
    assert {line["taskId"] for line in (shouted, said, broken)} == {id}
    assert (shouted["name"], shouted["queue"], shouted["attempt"], shouted["worker"]) == ("speak", "default", 0, "w1")


def test_logging_that_a_task_sets_up_itself_keeps_its_levels(shop: Shell) -> None:
    id = shop.out("enqueue", "late")
    with Serving(shop) as worker:
        worker.says(f" WARNING task.output id={id} late: set up\n")
