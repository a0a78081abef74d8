"""The very commands of units and manifests, run on a real store: no flag is misspelt, and probes and stopping work."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from acceptance.deploy import confined
from acceptance.shell import BIN, Shell
from support.servers import RedisServer, free_port
from support.until import until

TOKEN = "0123456789abcdef"


class Service:
    def __init__(self, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
        self.process, self.port, self._log = process, port, log

    @property
    def log(self) -> str:
        return self._log.read_text()

    def answers(self, path: str, status: int = 200) -> str:
        """Wait until it answers so; return what it says."""
        return until(lambda: self._ask(path, status), seconds=30, every=0.05)

    def _ask(self, path: str, status: int) -> str | None:
        assert self.process.poll() is None, self.log
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return str(answer.read().decode()) if answer.status == status else None
        except urllib.error.HTTPError as error:
            return error.read().decode() if error.code == status else None
        except OSError:
            return None

    def end(self) -> int:
        """Its exit code after TERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def running(shell: Shell, words: list[str], port: int, around: list[str] | None = None) -> Iterator[Service]:
    log = shell.directory / f"{words[1]}-{port}.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*(around or []), *words], cwd=shell.directory, env=shell.variables, stdout=stream, stderr=stream
        )
    try:
        yield Service(process, port, log)
    except BaseException as error:
        error.add_note(log.read_text())
        raise
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def on_redis(shop: Shell, redis_server: RedisServer, namespace: str) -> Shell:
    shop.out("deploy", "init", "k8s", "--queue", "mail")
    shop.directory.chmod(0o755)
    return shop.at(
        STEM_BROKER_URL=redis_server.url, STEM_NAMESPACE=namespace, STEM_DASHBOARD_TOKEN=TOKEN, POD_NAME="shop-1-x"
    )


def container(shell: Shell, service: str) -> dict[str, Any]:
    document = next(yaml.safe_load_all((shell.directory / f"deploy/k8s/{service}.yaml").read_text()))
    (found,) = document["spec"]["template"]["spec"]["containers"]
    return dict(found)


@contextmanager
def pod(shell: Shell, service: str) -> Iterator[Service]:
    """The command of the manifest, confined as the manifest says; only the port is another, since tests share a machine."""
    spec, port = container(shell, service), free_port()
    words = [word.replace("$(POD_NAME)", shell.variables["POD_NAME"]) for word in spec["args"]]
    words = [word.replace("0.0.0.0:8080", f"0.0.0.0:{port}").replace("=8780", f"={port}") for word in words]
    with running(shell, [str(BIN / "stem"), *words], port, confined.around(shell.directory)) as service_running:
        for probe in ("livenessProbe", "readinessProbe"):
            service_running.answers(spec[probe]["httpGet"]["path"])
        yield service_running


def test_a_worker_runs_tasks_and_its_pre_stop_hook_lets_them_finish(on_redis: Shell) -> None:
    with pod(on_redis, "worker") as worker:
        assert on_redis.out("enqueue", "shop.send", "--arg", "to=ada", "--wait", "20s").endswith('"sent to ada"')
        id = on_redis.out("enqueue", "shop.linger", "--arg", "seconds=3")
        until(lambda: on_redis.json("task", "show", id)["state"] == "running", seconds=20, every=0.1)

        hook = container(on_redis, "worker")["lifecycle"]["preStop"]["exec"]["command"]
        stopped = subprocess.run(hook, env=on_redis.variables, cwd=on_redis.directory, capture_output=True, timeout=30)
        assert stopped.returncode == 0, stopped
        assert json.loads(worker.answers("/readyz", status=503))["state"] == "draining"
        assert worker.end() == 0  # the platform's TERM comes after the hook, and makes nothing stricter
        record = on_redis.json("task", "show", id)
        assert record["state"] == "succeeded" and record["attempt"] == 0
        assert all(json.loads(line)["at"] for line in worker.log.splitlines())


def test_the_scheduler_tells_keda_how_much_work_waits(on_redis: Shell) -> None:
    manifest = yaml.safe_load((on_redis.directory / "deploy/k8s/scaling.yaml").read_text())
    metadata = manifest["spec"]["triggers"][0]["metadata"]
    for _ in range(3):
        on_redis.out("enqueue", "shop.send", "--arg", "to=ada")
    with pod(on_redis, "beat") as beat:
        path = metadata["url"].partition(":8080")[2]
        assert json.loads(beat.answers(path))[metadata["valueLocation"]] == 3
        assert beat.end() == 0
        assert all(json.loads(line)["at"] for line in beat.log.splitlines())


def test_the_dashboard_asks_for_the_token(on_redis: Shell) -> None:
    with pod(on_redis, "dashboard") as dashboard:
        assert "Log in" in dashboard.answers("/login")
        asked = urllib.request.Request(
            f"http://127.0.0.1:{dashboard.port}/queues", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        with urllib.request.urlopen(asked, timeout=10) as page:
            assert page.status == 200
        dashboard.end()


@pytest.mark.skipif(not confined.is_possible(), reason="only root can confine a process as a container runtime does")
def test_confined_services_can_really_write_nowhere(on_redis: Shell) -> None:
    words = [*confined.around(on_redis.directory), "sh", "-c"]
    for place in ("/mnt/x", "/var/tmp/x", "/x", str(BIN / "x")):
        done = subprocess.run([*words, f"touch {shlex.quote(place)}"], capture_output=True, timeout=30)
        assert done.returncode, place
    assert subprocess.run([*words, "touch /tmp/x"], capture_output=True, timeout=30).returncode == 0


# systemd -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def units(shop: Shell) -> Path:
    """Units for an app that lies where the test's does, with an environment at the usual place below it."""
    (shop.directory / ".venv").symlink_to(sys.prefix)
    shop.out("deploy", "init", "systemd", "--folder", str(shop.directory), "--queue", "mail")
    return shop.directory / "deploy/systemd"


def test_systemd_accepts_every_unit(units: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed; install Debian's systemd to run this")
    found = sorted(map(str, units.glob("*.service")))
    assert len(found) == 4
    verified = subprocess.run(["systemd-analyze", "verify", *found], capture_output=True, text=True, timeout=60)
    ours = [
        line for line in verified.stderr.splitlines() if "shop-" in line
    ]  # it also tells of the machine's own units
    assert not ours and verified.returncode == 0, verified.stderr
    for unit in found:
        judged = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--threshold=40", unit],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert judged.returncode == 0, judged.stdout[-600:] + judged.stderr


def test_systemd_would_notice_a_misspelt_option(units: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed; install Debian's systemd to run this")
    unit = units / "shop-beat.service"
    unit.write_text(unit.read_text().replace("TimeoutStopSec", "TimeoutStopSecs"))
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    assert "TimeoutStopSecs" in verified.stderr


def exec_start(unit: Path, instance: str) -> list[str]:
    (line,) = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    assert "%" not in line.replace("%i", "").replace("%H", "")
    return shlex.split(line.removeprefix("ExecStart=").replace("%i", instance).replace("%H", os.uname().nodename))


def environment(units: Path, shell: Shell) -> Shell:
    """The example as it is written, with the store below the test's folder."""
    lines = (units / "shop-stem.env.example").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    (shell.directory / "state").mkdir()
    return shell.at(
        **{name: value.replace("/var/lib/shop", f"{shell.directory}/state") for name, value in given.items()}
    )


def test_the_units_of_one_machine_run_on_its_sqlite_file(shop: Shell, units: Path) -> None:
    shell = environment(units, shop)
    port, beat_port, web_port = free_port(), free_port(), free_port()
    worker_words = exec_start(units / "shop-worker@.service", str(port))
    beat_words = [word.replace(":8079", f":{beat_port}") for word in exec_start(units / "shop-beat.service", "")]
    web_words = [word.replace("=8780", f"={web_port}") for word in exec_start(units / "shop-dashboard.service", "")]
    with running(shell, worker_words, port) as worker:
        assert json.loads(worker.answers("/readyz"))["ready"]
        assert shell.out("enqueue", "shop.send", "--arg", "to=ada", "--wait", "20s").endswith('"sent to ada"')
        with running(shell, beat_words, beat_port) as beat, running(shell, web_words, web_port) as web:
            assert json.loads(beat.answers("/readyz"))["ready"]
            assert "shop.send" in web.answers("/tasks")
            assert beat.end() == 0
            web.end()
        assert worker.end() == 0
