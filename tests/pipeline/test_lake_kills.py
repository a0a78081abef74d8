"""The pipeline's driver killed again and again while events flow: nothing is lost, nothing is there twice."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from stem.backends import connect
from stem.core.config import Settings
from stem.pipeline import lake as lakes
from stem.pipeline.flow import Flow
from stem.pipeline.retention import tend
from support.past import live
from support.recount import assert_equals_a_recount
from support.until import until

CAMPAIGN_SECONDS = float(os.environ.get("STEM_CAMPAIGN_SECONDS", "0"))
DRIVER = Path(__file__).with_name("driver.py")


def test_the_lake_equals_the_log_after_its_driver_was_killed_at_any_point(spark: SparkSession, tmp_path: Path) -> None:
    url, root = f"sqlite:///{tmp_path}/stem.db", str(tmp_path / "lake")
    store = connect(url, Settings())
    live(store, 100)
    chance = random.Random(20261116)
    end = time.monotonic() + CAMPAIGN_SECONDS
    kills = 0
    with flowing(url):
        while kills < 2 or time.monotonic() < end:
            with driver(url, root) as process:
                assert process.stdout is not None
                until(process.stdout.readline, seconds=120)  # a batch is in; somewhere in the next ones it ends
                time.sleep(chance.uniform(0.0, 1.5))
            kills += 1
    Flow(Settings(broker_url=url), root).run(lambda: spark)
    lake, logged = lakes.opened(root), store.events.read(None, limit=1_000_000)
    kept = [row.offset for row in lake.events.frame(spark).select("offset").collect()]
    assert len(kept) == len(set(kept)) == len(logged)
    assert_equals_a_recount(spark, lake, logged)
    tend(lake, spark, many_files=2, vacuum_hours=0)
    files = sum(
        1 for table in lake.tables for path in Path(table.root).rglob("*.parquet") if "_delta_log" not in path.parts
    )
    assert files == sum(len(table.files()) for table in lake.tables)
    store.upkeep.close()


@contextmanager
def driver(url: str, root: str) -> Iterator[subprocess.Popen[str]]:
    """It and all that it started die by SIGKILL."""
    with subprocess.Popen([sys.executable, str(DRIVER), url, root], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            family = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGKILL)
            for member in family:
                member.kill()
            psutil.wait_procs(family, timeout=30)


@contextmanager
def flowing(url: str) -> Iterator[None]:
    """Tasks come and end meanwhile."""
    stopped = threading.Event()

    def go_on() -> None:
        store = connect(url, Settings())
        while not stopped.wait(0.1):
            live(store, 20)
        store.upkeep.close()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
