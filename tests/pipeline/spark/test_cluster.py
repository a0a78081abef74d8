"""The pipeline on clusters of several executors, one of which is killed in the midst: each row once, each event once."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from stem.backends import connect
from stem.contracts.staging import Promotion
from stem.contracts.store import Store
from stem.core.settings.app import Settings
from stem.pipeline.lake import lake as lakes
from stem.pipeline.spark import java
from support.pipeline.recount import assert_equals_a_recount
from support.pipeline.spark_jobs import START_SECONDS, is_open
from support.pipeline.written_history import live
from support.servers import free_port
from support.stores.calls import all_events, claim, depth
from support.until import until

ROWS = 20_000
DRIVER = Path(__file__).with_name("cluster_driver.py")
MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
HOSTS = ("127.0.0.1", "127.0.0.2")  # two of them, for Spark speculates on another host only

STEM = Path(sys.executable).with_name("stem")
SLOWNESS = 4  # of a machine that others use at the same time

campaign = pytest.mark.skipif(not os.environ.get("STEM_CAMPAIGN_SECONDS"), reason="six JVMs, for campaigns")


@dataclass(frozen=True, slots=True)
class Ran:
    """What the driver said, and what it left."""

    marks: list[str]
    tasks_read: int
    lost_in_the_lake: int
    store: Store
    lake: lakes.Lake
    is_speculated: bool


@pytest.fixture(scope="module", params=["local-cluster", pytest.param("standalone", marks=campaign)])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    folder = tmp_path_factory.mktemp("cluster")
    url = f"sqlite:///{folder}/stem.db"
    store = connect(url, Settings())
    live(store, 1000)
    is_standalone = request.param == "standalone"
    with ExitStack() as stack:
        stack.callback(store.upkeep.close)
        master = stack.enter_context(standalone(folder)) if is_standalone else "local-cluster[2,1,1024]"
        told = json.loads(driven(master, url, folder))
        lake = lakes.open_lake(str(folder / "lake"))
        yield Ran(told["marks"], told["tasks"], told["lostInTheLake"], store, lake, is_standalone)


def test_each_row_is_one_task_though_an_executor_is_killed_half_way_and_another_is_overtaken_by_its_copy(
    ran: Ran,
) -> None:
    assert ran.marks == ["killed.mark", *(["try-0.mark", "try-1.mark"] if ran.is_speculated else [])]
    assert (depth(ran.store, "q").ready, ran.store.staging.promoted("rows")) == (ROWS, Promotion(ROWS, 0))
    assert ran.tasks_read == ROWS
    numbers = [each.envelope.arguments()["number"] for each in claim(ran.store, "q", limit=ROWS)]
    assert sorted(numbers) == list(range(ROWS))


def test_the_lake_equals_the_log_though_an_executor_is_killed_while_it_writes(spark: SparkSession, ran: Ran) -> None:
    assert ran.lost_in_the_lake > 0
    logged = all_events(ran.store, step=20_000)
    kept = [row.offset for row in ran.lake.events.frame(spark).select("offset").collect()]
    assert len(logged) > ROWS
    assert sorted(kept) == sorted(event.offset for event in logged)
    assert_equals_a_recount(spark, ran.lake, logged)


def test_the_doctor_names_a_cluster_without_workers_within_half_a_minute(tmp_path: Path) -> None:
    with standalone(tmp_path, hosts=()) as address:
        began = time.monotonic()
        done = subprocess.run(
            [STEM, "pipeline", "doctor", "--master", address], cwd=tmp_path, capture_output=True, text=True, timeout=200
        )
        took = time.monotonic() - began
    assert done.returncode == 70, done.stderr
    assert "executors      none registered" in done.stdout and "start workers on the cluster" in done.stdout
    assert "Traceback" not in done.stderr
    assert took < 30 * SLOWNESS, f"{took:.0f} s"


def driven(master: str, url: str, folder: Path) -> str:
    command = [sys.executable, str(DRIVER), master, url, str(folder), str(ROWS)]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "SPARK_LOCAL_DIRS": str(folder), "SPARK_WORKER_DIR": str(folder / "work")},
        stdout=subprocess.PIPE,
        text=True,
        timeout=280,
        check=True,
    )
    return done.stdout.splitlines()[-1]


@contextmanager
def standalone(folder: Path, hosts: Sequence[str] = HOSTS) -> Iterator[str]:
    """A master and its workers, each on an address of its own."""
    port = free_port()
    with ExitStack() as stack:
        address = f"spark://127.0.0.1:{port}"
        at = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        master = stack.enter_context(started(folder, "127.0.0.1", MASTER, *at))
        until(lambda: is_open(master, port), seconds=START_SECONDS, every=0.1)
        for host in hosts:
            room = ["--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            stack.enter_context(started(folder, host, WORKER, *room, address))
        yield address


@contextmanager
def started(folder: Path, host: str, duty: str, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java.find().home),
        "SPARK_LOCAL_IP": host,
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_WORKER_DIR": str(folder / f"work-{host}"),
    }
    with (folder / f"{duty}-{host}.log").open("wb") as log:
        process = subprocess.Popen([home / "bin/spark-class", duty, *words], env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)
