"""`stem worker start`: runs what is enqueued, stops when told, says what is wrong, and leaves nothing behind."""

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from acceptance.serving import Serving
from acceptance.shell import STEM, Shell
from support.until import until

SHOP = """
import os
import pathlib
import time

from stem import Stem, TaskContext

app = Stem()


@app.task(name="invoice")
def invoice(customer: int) -> str:
    print(f"invoice for {customer}")
    return f"sent to {customer}"


@app.task(name="hold")
def hold(ctx: TaskContext) -> str:
    "Says that it runs, and waits to be released."
    pathlib.Path("holding").touch()
    while not os.path.exists("release"):
        time.sleep(0.01)
    return "released"


@app.task(name="chatter")
def chatter() -> None:
    for number in range(1000):
        print(f"{number:04} " + "x" * 1000)


@app.task(name="mail", queue="mail")
def mail() -> str:
    return "mail"


@app.task(name="spam", queue="spam")
def spam() -> str:
    return "spam"
"""


@pytest.fixture
def shop(shell: Shell) -> Shell:
    """On SQLite, for tests whose point is the command."""
    return with_shop(shell)


@pytest.fixture
def any_shop(stem: Shell) -> Shell:
    """On each store in turn."""
    return with_shop(stem)


def with_shop(shell: Shell) -> Shell:
    (shell.directory / "shop.py").write_text(SHOP)
    return shell.at(STEM_APP="shop:app", PYTHONDONTWRITEBYTECODE="1")


def ready(shell: Shell) -> dict[str, int]:
    return {queue["queue"]: queue["ready"] for queue in shell.json("queue", "list")["queues"] if queue["ready"]}


def test_a_task_from_the_command_line_runs_and_its_result_can_be_read(any_shop: Shell) -> None:
    with Serving(any_shop, "--concurrency", "1") as worker:
        worker.says("worker.started")
        id = any_shop.out("enqueue", "invoice", "--arg", "customer=7")
        assert any_shop.out("task", "result", id, "--wait", "20s") == '"sent to 7"'
        (alive,) = until(lambda: any_shop.json("health")["workers"], seconds=30)  # it may run before it beats
        assert alive["pid"] == worker.process.pid
        assert worker.end() == 0
    assert any_shop.json("health")["workers"] == []


def test_after_term_what_runs_ends_and_what_waits_is_back_in_its_queue(any_shop: Shell) -> None:
    held = any_shop.out("enqueue", "hold", "--priority", "9")
    for customer in range(5):
        any_shop.out("enqueue", "invoice", "--arg", f"customer={customer}")
    with Serving(any_shop, "--concurrency", "1") as worker:
        until((any_shop.directory / "holding").exists, seconds=30)
        worker.process.send_signal(signal.SIGTERM)
        worker.says("worker.stop_requested mode=warm")
        assert worker.process.poll() is None
        (any_shop.directory / "release").touch()
        assert worker.process.wait(timeout=30) == 0
    assert any_shop.out("task", "result", held) == '"released"'
    assert ready(any_shop) == {"default": 5}
    assert {task["attempt"] for task in any_shop.json("task", "list", "--state", "queued")["tasks"]} == {0}


def test_after_ctrl_c_what_runs_may_still_end(shop: Shell) -> None:
    held = shop.out("enqueue", "hold")
    with Serving(shop, "--grace", "60s") as worker:
        until((shop.directory / "holding").exists, seconds=30)
        worker.process.send_signal(signal.SIGINT)
        worker.says("worker.stop_requested mode=soft")
        (shop.directory / "release").touch()
        assert worker.process.wait(timeout=30) == 0
    assert shop.out("task", "result", held) == '"released"'


def test_a_second_ctrl_c_cuts_off_what_runs_and_it_goes_back_unharmed(shop: Shell) -> None:
    held = shop.out("enqueue", "hold")
    with Serving(shop) as worker:
        until((shop.directory / "holding").exists, seconds=30)
        worker.process.send_signal(signal.SIGINT)
        worker.says("worker.stop_requested mode=soft")
        assert worker.end(signal.SIGINT) == 0
    assert ready(shop) == {"default": 1}
    assert shop.json("task", "show", held)["attempt"] == 0


def test_only_the_queues_that_are_named_are_worked_on(shop: Shell) -> None:
    ids = {name: shop.out("enqueue", name, "--app", "shop:app") for name in ("mail", "spam")}
    invoice = shop.out("enqueue", "invoice", "--arg", "customer=1")
    with Serving(shop, "--queue", "mail", "--queue", "default", "--queue", "mail") as worker:
        assert shop.out("task", "result", ids["mail"], "--wait", "20s") == '"mail"'
        assert shop.out("task", "result", invoice, "--wait", "20s") == '"sent to 1"'
        worker.says("queues=mail,default ")
        assert worker.end() == 0
    assert ready(shop) == {"spam": 1}


def test_without_queues_named_those_of_the_apps_tasks_are_worked_on(shop: Shell) -> None:
    id = shop.out("enqueue", "spam")
    with Serving(shop) as worker:
        assert shop.out("task", "result", id, "--wait", "20s") == '"spam"'
        worker.says("queues       default, mail, spam")


@pytest.mark.parametrize("words", [("--app", "shop"), ("--app", "shop.py:app"), ("--app", "shop.py")])
def test_the_app_may_be_a_module_or_a_file(shop: Shell, words: tuple[str, str]) -> None:
    with Serving(shop, *words) as worker:
        worker.says("worker.started")
        assert worker.end() == 0


def test_flags_reach_the_processes_that_import_the_app(shop: Shell) -> None:
    flags = ("--broker-url", "sqlite:///other.db", "--namespace", "n2")
    id = shop.out("enqueue", "invoice", "--arg", "customer=1", *flags)
    with Serving(shop, *flags) as worker:
        assert shop.out("task", "result", id, "--wait", "20s", *flags) == '"sent to 1"'
        assert worker.end() == 0
    assert "stem.db" not in shop.files


def test_a_password_is_not_shown(shop: Shell) -> None:
    said = shop.run("worker", "start", "--broker-url", "redis://:geheim@127.0.0.1:1/0")
    assert said.returncode == 70
    assert "geheim" not in said.stderr + said.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--app", ""), "A worker needs an app"),
        (("--app", "nowhere:app"), "There is no module 'nowhere'"),
        (("--app", "shop:missing"), "has no 'missing'"),
        (("--app", "not/there.py:app"), "There is no file not/there.py"),
        (("--app", "os:path"), "not a Stem app"),
        (("--concurrency", "0"), "--concurrency"),
        (("--concurrency", "many"), "--concurrency"),
        (("--lease", "soon"), "--lease"),
        (("--lease", "0"), "--lease is not a number of seconds"),
        (("--soft-limit", "10s", "--hard-limit", "5s"), "not below the hard limit"),
        (("--name", "not a name"), "Worker name"),
        (("--queue", "a\nb"), "a\\nb"),
        (("--log-level", "loud"), "--log-level"),
        (("--namespace", "not/one"), "Namespace 'not/one'"),
        (("--broker-url", "memory://here"), "lives in one process alone"),
        (("--broker-url", "ftp://x"), "ftp"),
    ],
)
def test_a_wrong_flag_is_refused_in_a_sentence(shop: Shell, words: tuple[str, ...], sentence: str) -> None:
    assert sentence in shop.refusal("worker", "start", *words, code=64)
    assert "stem.db" not in shop.files


def test_flags_that_the_app_would_ignore_are_refused(shop: Shell) -> None:
    (shop.directory / "fixed.py").write_text(SHOP.replace("Stem()", 'Stem("sqlite:///fixed.db")'))
    words = ("worker", "start", "--app", "fixed:app")
    assert "--broker-url cannot change it" in shop.refusal(*words, "--broker-url", "sqlite:///other.db", code=64)


def test_an_app_that_cannot_be_imported_is_named_with_the_cause(shop: Shell) -> None:
    (shop.directory / "broken.py").write_text("import json\njson.loads(1/0)\n")
    words = ("worker", "start", "--app", "broken:app")
    assert "'broken' cannot be imported (ZeroDivisionError" in shop.refusal(*words, code=64)
    assert "line 2" in shop.run(*words, "--traceback").stderr


def test_the_output_of_a_task_is_logged_with_its_id(shop: Shell) -> None:
    id = shop.out("enqueue", "invoice", "--arg", "customer=7")
    with Serving(shop) as worker:
        worker.says(f"INFO task.output id={id} invoice for 7\n")


def test_json_logs_are_one_object_a_line(shop: Shell) -> None:
    id = shop.out("enqueue", "invoice", "--arg", "customer=7")
    with Serving(shop, "--log-format", "json") as worker:
        worker.says("worker.started")
        worker.says("task.succeeded")
        assert worker.end() == 0
        (output,) = [line for line in worker.lines if line["event"] == "task.output"]
        assert (output["taskId"], output["message"], output["level"]) == (id, "invoice for 7", "info")
        events = [line["event"] for line in worker.lines if line["logger"] == "stem.worker"]
        # It may succeed before the worker says that it has started.
        assert sorted(events[:-2]) == ["task.succeeded", "worker.signing_configured", "worker.started"]
        assert events[-2:] == ["worker.stop_requested", "worker.stopped"]


def test_json_logs_hold_what_the_app_prints_when_it_is_imported(shop: Shell) -> None:
    (shop.directory / "chatty.py").write_text("import sys\nprint('hello')\nprint('there', file=sys.stderr)\n" + SHOP)
    with Serving(shop, "--app", "chatty:app", "--log-format", "json") as worker:
        worker.says("worker.started")
        assert [line["message"] for line in worker.lines if line["event"] == "app.output"] == [
            "app.output hello",
            "app.output there",
        ]


def test_json_logs_hold_what_is_refused(shop: Shell) -> None:
    done = shop.run("worker", "start", "--app", "nowhere:app", "--log-format", "json")
    assert (done.returncode, done.stdout) == (64, "")
    told = json.loads(done.stderr.splitlines()[-1])  # on a busy machine it is said before that the import takes long
    assert told["event"] == "worker.refused" and "There is no module 'nowhere'" in told["message"]


LOGGING = """
import logging, sys
{set_up}
from stem import Stem

app = Stem()

@app.task(name="speak")
def speak() -> None:
    logging.getLogger("shop").debug("whispered")
    logging.getLogger("shop").info("said")
    logging.getLogger("shop").error("shouted")
    print("printed")
"""


@pytest.mark.parametrize(
    ("set_up", "words", "lines"),
    [
        ("", (), ["INFO shop: said", "ERROR shop: shouted", "INFO printed"]),
        ("", ("--log-level", "error"), ["ERROR shop: shouted", "INFO printed"]),
        (
            "logging.basicConfig(level=10, format='%(message)s')",
            (),
            ["DEBUG whispered", "INFO said", "ERROR shouted", "INFO printed"],
        ),
        ("logging.basicConfig(stream=sys.stdout, format='%(message)s')", (), ["ERROR shouted", "INFO printed"]),
    ],
)
def test_log_records_of_tasks_keep_their_id_and_the_formatting_of_the_app(
    shop: Shell, set_up: str, words: tuple[str, ...], lines: list[str]
) -> None:
    (shop.directory / "speaker.py").write_text(LOGGING.format(set_up=set_up))
    shop = shop.at(STEM_APP="speaker:app")
    id = shop.out("enqueue", "speak")
    with Serving(shop, *words) as worker:
        worker.says("printed")
        said = [line.partition(" ")[2] for line in worker.log.splitlines() if "task.output" in line]
        assert [line.replace(f" task.output id={id}", "") for line in said] == lines


def test_term_ends_a_worker_whose_app_is_still_being_imported(shop: Shell) -> None:
    (shop.directory / "slow.py").write_text("import pathlib, time\npathlib.Path('importing').touch()\ntime.sleep(60)\n")
    with Serving(shop, "--app", "slow:app") as worker:
        until((shop.directory / "importing").exists, seconds=30)
        children = worker.children
        assert worker.end() == 0
        assert psutil.wait_procs(children, timeout=20)[1] == []


def test_a_reader_of_the_log_that_stops_reading_stops_no_task(shop: Shell) -> None:
    ids = [shop.out("enqueue", "chatter") for _ in range(3)]
    command = [STEM, "worker", "start", "--concurrency", "1"]
    process = subprocess.Popen(command, cwd=shop.directory, env=shop.variables, stderr=subprocess.PIPE)
    try:
        for id in ids:
            assert shop.out("task", "result", id, "--wait", "20s") == "null"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.communicate()


def test_without_streams_it_works_all_the_same(shop: Shell) -> None:
    """As under an init system that closes them."""
    id = shop.out("enqueue", "invoice", "--arg", "customer=7")
    command = f"exec {shlex.quote(STEM)} worker start <&- >&- 2>&-"
    process = subprocess.Popen(command, shell=True, cwd=shop.directory, env=shop.variables)
    try:
        assert shop.out("task", "result", id, "--wait", "20s") == '"sent to 7"'
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()


def test_a_changed_file_is_picked_up_and_a_broken_one_waited_out(shop: Shell) -> None:
    def answer() -> str:
        return shop.out("task", "result", shop.out("enqueue", "spam"), "--wait", "20s")

    def change(text: str) -> None:
        """As editors do: whole, by a new name."""
        (shop.directory / "shop.py.new").write_text(text)
        os.replace(shop.directory / "shop.py.new", shop.directory / "shop.py")

    with Serving(shop, "--reload") as worker:
        worker.says("worker.started")
        assert answer() == '"spam"'
        change(SHOP.replace('return "spam"', 'return "eggs"'))
        worker.says("worker.started", times=2)
        assert answer() == '"eggs"'
        change(SHOP.replace('return "spam"', 'return "'))
        worker.says("ERROR reload.failed: Module 'shop' cannot be imported (SyntaxError: ")
        change(SHOP.replace('return "spam"', 'return "ham"'))
        worker.says("worker.started", times=3)
        assert answer() == '"ham"'
        assert worker.end() == 0


def test_a_worker_that_reloads_ends_when_it_is_told_to_in_the_middle(shop: Shell) -> None:
    shop.out("enqueue", "hold")
    with Serving(shop, "--reload") as worker:
        until((shop.directory / "holding").exists, seconds=30)
        (shop.directory / "other.py").touch()
        worker.says("worker.stop_requested mode=soft")
        worker.process.send_signal(signal.SIGTERM)
        (shop.directory / "release").touch()
        assert worker.process.wait(timeout=30) == 0
        assert worker.log.count("worker.started") == 1


def test_a_killed_worker_leaves_no_process_behind(shop: Shell) -> None:
    shop.out("enqueue", "hold")
    with Serving(shop, "--concurrency", "3") as worker:
        until((shop.directory / "holding").exists, seconds=30)
        until(lambda: len(worker.children) == 5, seconds=30)  # the reaper, the fork server and its isolates
        children = worker.children
        worker.process.kill()
        assert psutil.wait_procs(children, timeout=20)[1] == []


def test_the_app_is_not_imported_by_the_process_that_keeps_the_leases(shop: Shell) -> None:
    mark = "import os, pathlib; pathlib.Path(f'imported-by-{os.getpid()}').touch()\n"
    (shop.directory / "marked.py").write_text(mark + SHOP)
    with Serving(shop, "--app", "marked:app") as worker:
        worker.says("worker.started")
        importers = {int(Path(name).name.removeprefix("imported-by-")) for name in shop.files if "imported-by" in name}
        assert importers
        assert worker.process.pid not in importers
