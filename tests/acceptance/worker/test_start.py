"""What `stem worker start` takes from stem.yaml and flags, and what it warns of."""

import signal
import time

import pytest

from acceptance.lab import Lab, a_lab
from acceptance.serving import Serving
from acceptance.shell import Shell
from stem.worker import supervisor
from support.servers import RedisServer
from support.until import until

SHOP = """
from stem import Stem

app = Stem()


@app.task(name="add")
def add(a: int) -> int:
    return a
"""


@pytest.fixture
def shop(shell: Shell) -> Shell:
    (shell.directory / "shop.py").write_text(SHOP)
    return shell.at(STEM_APP="shop:app")


def configured(shell: Shell, text: str) -> None:
    (shell.directory / "stem.yaml").write_text(text)


def test_the_log_level_and_format_of_the_file_hold(shop: Shell) -> None:
    configured(shop, "worker: {logLevel: error, logFormat: json}\n")
    id = shop.run("enqueue", "add", "--arg", "a=1").stdout.strip()
    with Serving(shop) as worker:
        shop.run("task", "result", id, "--wait", "30s")
        assert worker.end() == 0
        assert "worker.started" not in worker.log
    with Serving(shop, "-l", "info") as worker:
        worker.says('"event": "worker.started"')


def test_without_signal_handlers_a_term_ends_the_worker_as_any_process(shop: Shell) -> None:
    configured(shop, "worker: {installSignalHandlers: false}\n")
    with Serving(shop) as worker:
        worker.says("worker.started")
        assert worker.end() == -signal.SIGTERM
        assert "worker.stop_requested" not in worker.log


def test_bounds_on_the_command_line_keep_the_other_autoscale_keys_of_the_file(lab: Lab) -> None:
    configured(lab.shell, "autoscale: {min: 1, max: 2, scaleUpStep: 5, idleSeconds: 77}\n")
    lab.start("w1", "--autoscale", "1,3")
    told = lab.told("autoscale")["autoscale"]
    assert (told["enabled"], told["min"], told["max"], told["scaleUpStep"], told["idleSeconds"]) == (
        True,
        1,
        3,
        5,
        77.0,
    )


def test_a_task_may_fell_as_many_isolates_as_the_file_says(shop: Shell) -> None:
    (shop.directory / "shop.py").write_text(
        SHOP + "\n\n@app.task(name='fall')\ndef fall() -> None:\n    import os\n    os.kill(os.getpid(), 9)\n"
    )
    configured(shop, "worker: {maxDeaths: 1, grace: 1s, warmTimeout: 5m, limiterFailsOpen: true}\n")
    id = shop.run("enqueue", "fall").stdout.strip()
    with Serving(shop, "-c", "1") as worker:
        worker.says(f"task.dead id={id} name=fall attempt=0 reason=crash-loop")
        assert worker.log.count("isolate.crashed") == 1


def test_doubtful_settings_are_told_at_the_start(shop: Shell) -> None:
    configured(shop, "worker: {concurency: 3}\n")
    with Serving(shop.at(STEM_BROKER="redis://host"), "-Q", "nosuch") as worker:
        worker.says("worker.started")
        assert "did you mean worker.concurrency?" in worker.log
        assert "STEM_BROKER is not known, and ignored; did you mean STEM_BROKER_URL?" in worker.log
        assert "No task of shop:app has the queue nosuch" in worker.log


def test_an_import_that_takes_long_is_told(shop: Shell) -> None:
    wait = "import pathlib, time\nwhile not pathlib.Path('go').exists():\n    time.sleep(0.05)\n"
    (shop.directory / "shop.py").write_text(wait + SHOP)
    with Serving(shop) as worker:
        worker.says("app.importing shop:app: still importing after 2 s")
        assert "worker.started" not in worker.log
        (shop.directory / "go").touch()
        worker.says("worker.started")


def test_a_wrong_clock_is_told(caplog: pytest.LogCaptureFixture) -> None:
    supervisor._warn_of_clock(time.time)
    assert caplog.records == []
    supervisor._warn_of_clock(lambda: time.time() - 60)
    assert "clock is 60.0 s ahead of the store's" in caplog.text
    supervisor._warn_of_clock(lambda: time.time() + 60)
    assert "clock is 60.0 s behind the store's" in caplog.text


def test_a_store_that_is_back_is_told(shell: Shell, namespace: str) -> None:
    server = RedisServer()
    try:
        with a_lab(shell, server.url, namespace) as lab:
            worker = lab.start()
            server.kill()
            worker.says("store.disconnected while claiming")
            server.start()
            worker.says("store.reconnected while claiming, after ")
            until(lambda: "w1" in lab.pulses, seconds=30)
    finally:
        server.close()
