"""A DataFrame becomes tasks and a store becomes a lake, on a cluster whose executors are killed under it.

python cluster_driver.py MASTER URL FOLDER ROWS; what became of it is a line of JSON.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from stem.core.settings.app import Settings
from stem.pipeline.lake.stream_to_lake import StreamToLake
from stem.pipeline.spark import class_archive, java
from stem.pipeline.spark.session import session

EXECUTOR = "CoarseGrainedExecutorBackend"
PARTS, DYING, SLOW = 4, 2, 3
PATIENCE_SECONDS = 120.0
CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "500",  # so that half a partition is staged when its executor dies
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
}


def main(master: str, url: str, folder: str, rows: str) -> None:
    # Executors live for seconds here, and most of that is their start.
    swift = " ".join(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *class_archive.start_options(java.find())])
    spark = session("cluster", master=master, conf=CONF | {"spark.executor.extraJavaOptions": swift})
    marks = Path(folder)
    has_hosts = master.startswith("spark:")  # Spark makes no second copy of a task on the host that runs the first
    frame = spark.range(0, int(rows), 1, PARTS).selectExpr("id AS number")
    unlucky = frame.mapInArrow(passing(marks, int(rows) // PARTS, has_hosts=has_hosts), frame.schema)
    unlucky.write.format("stem").mode("append").options(url=url, task="any", queue="q", job="rows").save()
    read = spark.read.format("stem").options(url=url, table="tasks", queue="q").schema("id string").load()
    tasks = len({row.id for row in read.collect()})
    lost = lake(spark, url, f"{folder}/lake")
    told = {"marks": sorted(each.name for each in marks.glob("*.mark")), "tasks": tasks, "lostInTheLake": lost}
    print(json.dumps(told), flush=True)
    spark.stop()


def passing(
    marks: Path, rows: int, *, has_hosts: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows as they are; but one partition's first executor dies half-way, another's first try waits for its copy."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        part, seen = context.partitionId(), 0
        if part == SLOW and has_hosts:
            (marks / f"try-{context.attemptNumber()}.mark").touch()
        for batch in batches:
            yield batch
            seen += len(batch)
            if part == DYING and seen > rows // 2 and not (marks / "killed.mark").exists():
                (marks / "killed.mark").touch()
                executor = next(each for each in psutil.Process().parents() if EXECUTOR in " ".join(each.cmdline()))
                executor.kill()
        end = time.monotonic() + PATIENCE_SECONDS
        while part == SLOW and has_hosts and not (marks / "try-1.mark").exists() and time.monotonic() < end:
            time.sleep(0.01)

    return pass_on


def lake(spark: SparkSession, url: str, root: str) -> int:
    """Fill it while an executor is killed; how many tasks of Spark's died of that."""
    ended = threading.Event()
    lost: list[int] = []
    hunter = threading.Thread(target=lambda: lost.append(hunt(spark, Path(root), ended)))
    hunter.start()
    try:
        StreamToLake(Settings(broker_url=url), root, events_per_batch=2_500).run(lambda: spark)
    finally:
        ended.set()
        hunter.join()
    return lost[0]


def hunt(spark: SparkSession, root: Path, ended: threading.Event) -> int:
    """Kill executors that write the lake's files, until a kill has cost Spark a task."""
    tracker = spark.sparkContext.statusTracker()
    struck: set[int] = set()
    while not ended.wait(0.002):
        stages = {stage: info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage))}
        lost = sum(info.numFailedTasks for stage in struck if (info := tracker.getStageInfo(stage)))
        if lost:
            return lost
        for stage, info in stages.items():
            if stage not in struck and info.numActiveTasks and any(root.glob("bronze/events/date=*/*.parquet")):
                struck.add(stage)
                for executor in executors():  # all of them, for one may have nothing to lose
                    os.kill(executor, signal.SIGKILL)
    return sum(info.numFailedTasks for stage in struck if (info := tracker.getStageInfo(stage)))


def executors() -> Iterator[int]:
    """Of this driver's: its own children, or those of the cluster's workers."""
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        if EXECUTOR in words and f":{port()}" in words:
            yield process.pid


def port() -> str:
    active = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    return str(active.sparkContext.getConf().get("spark.driver.port"))


if __name__ == "__main__":
    main(*sys.argv[1:])
