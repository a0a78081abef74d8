"""What tests ask of tasks on Spark: when they did something, and what Spark itself says of them."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
import pytest

from stem.cli.main import run as stem
from stem.core.record import TaskRecord
from stem.pipeline.spark import class_archive, java
from support.servers import free_port
from support.until import until
from support.workers.processes import Desk, WorkerProcess, worker_process

APP = "support.worker_apps.sparkling:app"
START_SECONDS = 90.0  # of a JVM, on a machine where others start theirs


@contextmanager
def spark_worker(
    url: str, namespace: str, directory: Path, *, remote: str | None = None, app: str = APP, **options: Any
) -> Iterator[WorkerProcess]:
    """With a Spark of its own, or on the Connect server at that address."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TMPDIR", str(directory))  # a test kills also those who would sweep up
        if remote is None:
            environment.setenv("STEM_SPARK_MASTER", os.environ.get("STEM_SPARK_MASTER", "local[2]"))
        else:
            environment.setenv("STEM_SPARK_REMOTE", remote)
        with worker_process(url, namespace, app, directory, **{"concurrency": 1, **options}) as worker:
            yield worker


class ConnectServer(NamedTuple):
    address: str
    ui: str  # which it tells no client of


@contextmanager
def connect_server(directory: Path) -> Iterator[ConnectServer]:
    """A real one, as PySpark ships it."""
    found, port, ui_port = java.find(), free_port(), free_port()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.python.task.killTimeout": "200ms",
        "spark.ui.port": str(ui_port),
    }
    given = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    options = [
        "--master",
        "local[2]",
        "--driver-memory",
        "640m",
        "--driver-java-options",
        " ".join(class_archive.start_options(found)),
    ]
    home = Path(pyspark.__file__).parent
    with (directory / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [home / "sbin/start-connect-server.sh", *options, *given],
            env={
                **os.environ,
                "SPARK_HOME": str(home),
                "JAVA_HOME": str(found.home),
                "SPARK_NO_DAEMONIZE": "1",
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_PID_DIR": str(directory),
                "SPARK_LOG_DIR": str(directory),
                "SPARK_LOCAL_DIRS": str(directory),
                "PYSPARK_PYTHON": sys.executable,
            },
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        until(lambda: is_open(server, port), seconds=START_SECONDS, every=0.1)
        yield ConnectServer(f"sc://127.0.0.1:{port}", f"http://127.0.0.1:{ui_port}")
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)


def is_open(server: "subprocess.Popen[bytes]", port: int) -> bool:
    assert server.poll() is None, "the server has ended"
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


class Marks:
    """A file in which the Python of Spark tasks writes who it is, and when."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def of(self, who: int | None = None) -> list[float]:
        if not self.path.exists():
            return []
        pairs = [line.split() for line in self.path.read_text().splitlines() if line.count(" ") == 1]
        return [float(at) for name, at in pairs if who is None or name == str(who)]

    def authors(self) -> list[str]:
        """Each once, in the order of their first marks."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return list(dict.fromkeys(line.split()[0] for line in lines if line.count(" ") == 1))

    def wait_for(self, who: int = 0, *, seconds: float = START_SECONDS) -> None:
        until(lambda: self.of(who), seconds=seconds, every=0.02)

    def stay_as_they_are(self, seconds: float = 1.0) -> bool:
        """Nothing is written for as long as that; what is written every ten milliseconds would be."""
        count, end = len(self.of()), time.monotonic() + seconds
        while time.monotonic() < end:
            if len(self.of()) > count:
                return False
            time.sleep(0.01)
        return True


def revoke(desk: Desk, task_id: str) -> None:
    """As an operator does; a worker that was killed answers nothing."""
    settings = desk.app.settings
    where = ["--broker-url", settings.broker_url, "--namespace", settings.namespace]
    stem(["worker", "revoke", task_id, "--terminate", "--timeout", "1s", *where])


def told_by_spark(record: TaskRecord) -> dict[str, Any]:
    found: dict[str, Any] = record.meta["progress"]["spark"]
    return found


def asked(spark: dict[str, Any], what: str) -> Any:
    """Spark's own word, by the address that the task's meta names."""
    url = f"{spark['uiUrl']}/api/v1/applications/{spark['applicationId']}/{what}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


def active_stages(spark: dict[str, Any]) -> int:
    return len(asked(spark, "stages?status=active"))
