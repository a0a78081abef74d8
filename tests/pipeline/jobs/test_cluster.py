"""Tasks on a real standalone cluster of one machine: Python that runs in an executor ends before the task says so."""

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from stem.core.lifecycle import State
from stem.pipeline.spark import java
from support.pipeline.spark_jobs import Marks, is_open, revoke, spark_worker
from support.servers import free_port
from support.until import until
from support.workers.processes import desk

pytestmark = pytest.mark.skipif(not os.environ.get("STEM_CAMPAIGN_SECONDS"), reason="three JVMs more, for campaigns")

MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"


@pytest.mark.timeout(400)
def test_a_revoke_waits_for_the_executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, marks, port = f"sqlite:///{tmp_path}/stem.db", Marks(tmp_path / "marks"), free_port()
    master = _started(tmp_path, MASTER, "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    worker = _started(
        tmp_path, WORKER, "--cores", "2", "--memory", "1g", "--webui-port", "0", f"spark://127.0.0.1:{port}"
    )
    monkeypatch.setenv("STEM_SPARK_MASTER", f"spark://127.0.0.1:{port}")
    try:
        until(lambda: is_open(master, port), seconds=60, every=0.1)
        with spark_worker(url, "cluster", tmp_path), desk(url, "cluster") as clerk:
            task = clerk.send("writes", file=str(marks.path))
            marks.wait_for(0, seconds=180)
            revoke(clerk, task)
            assert clerk.ended(task, seconds=10).state == State.CANCELLED
            assert marks.stay_as_they_are()
    finally:
        for process in (worker, master):
            process.terminate()
            process.wait(30)


def _started(place: Path, duty: str, *words: str) -> "subprocess.Popen[bytes]":
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java.find().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment |= {"SPARK_WORKER_DIR": str(place / "work"), "SPARK_LOCAL_DIRS": str(place)}
    with (place / f"{duty}.log").open("wb") as log:
        return subprocess.Popen([home / "bin/spark-class", duty, *words], env=environment, stdout=log, stderr=log)
