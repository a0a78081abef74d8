"""Data in, through and out: a DataFrame becomes tasks, tasks run on Spark, and Spark reports what happened.

    python examples/spark_pipeline/pipeline.py [--keep FOLDER]

Ends in how many expectations held; exit 0 only if all did. --keep leaves the lake and the HTML report there to look at.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stem.pipeline.report.report import TaskFigures

HERE = Path(__file__).parent
ORDERS = 2000
PATIENCE_SECONDS = 120.0
Row = tuple[str, object, object]


def main(place: Path) -> int:
    os.environ.update(
        STEM_BROKER_URL=f"sqlite:///{place}/stem.db",
        STEM_EXAMPLE_PLACE=str(place),
        STEM_LAKE=str(place / "lake"),
        STEM_SPARK_MASTER="local[2,4]",
    )
    from stem.pipeline import session

    spark = session("example")
    rows: list[Row] = []
    for scene in (fill, work, spark_task, bulk, lake, triage, whatif):
        began_at = time.perf_counter()
        print(f"{scene.__name__.replace('_', ' '):<12}", end="", flush=True)
        rows += scene(spark, place)
        print(f"{time.perf_counter() - began_at:6.1f} s")
    spark.stop()
    return verdict(rows)


def fill(spark: "SparkSession", place: Path) -> Iterator[Row]:
    """In: each row a task, all or none, and those that cannot run set aside with the reason."""
    from tasks import app

    orders(spark).write.mode("overwrite").parquet(str(place / "orders"))
    bad = spark.createDataFrame([(-1, None)], "order int, amount double")
    frame = orders(spark).select("order", "amount").unionByName(bad)
    for _ in range(2):  # the same job again adds nothing
        writer = frame.write.format("stem").mode("append")
        writer = writer.option("app", "tasks:app").option("task", "order.confirm").option("job", "orders-of-today")
        writer.option("onBadRow", "reject").option("rejects", str(place / "rejects")).save()
    yield "rows that became tasks", ORDERS, app.store.broker.depth(["default"])["default"].ready


def work(spark: "SparkSession", place: Path) -> Iterator[Row]:  # noqa: ARG001
    """Ordinary workers run them."""
    from tasks import app

    with worker(place):
        until(lambda: not waiting())
    depth = app.store.broker.depth(["default"])["default"]
    yield "tasks that ended in the dead letters", ORDERS // 100, depth.dead


def spark_task(spark: "SparkSession", place: Path) -> Iterator[Row]:
    """Through: a task that is a Spark job, in a worker of its own."""
    from tasks import summarise

    with worker(place):
        handle = summarise.enqueue(str(place / "orders"))
        sums = handle.get(PATIENCE_SECONDS)
    total = orders(spark).groupBy().sum("amount").collect()[0][0]
    yield "what a task on Spark summed up", round(total, 2), round(sum(sums.values()), 2)
    yield "and where it ran is in its meta", True, "applicationId" in handle.status().meta["progress"]["spark"]


def bulk(spark: "SparkSession", place: Path) -> Iterator[Row]:
    """Through: one task over a whole table; the item that fails becomes a dead letter like any other."""
    from tasks import app

    frame = orders(spark).select("order", "amount")
    done = app.bulk("vat.compute").over(frame, key="order").to(place / "vat")
    yield "items of a bulk that succeeded", ORDERS - 1, done.succeeded
    yield "its failed item is a dead letter", 1, done.buried


def lake(spark: "SparkSession", place: Path) -> Iterator[Row]:
    """Out: events into the lake, each once; and the report."""
    from tasks import app

    from stem.pipeline.lake.lake import open_lake
    from stem.pipeline.lake.sql import run_query
    from stem.pipeline.lake.stream_to_lake import StreamToLake
    from stem.pipeline.report.html import html
    from stem.pipeline.report.report import report

    for _ in range(2):  # the second run finds nothing new
        StreamToLake(settings=app.settings, root=app.settings.pipeline.lake).run(lambda: spark)
    there = open_lake(app.settings.pipeline.lake)
    _, counted = run_query(there, spark, "select count(*), count(distinct offset) from events", limit=1)
    events = int(app.store.events.head() or 0)
    yield "events in the lake, and different ones", [events, events], counted[0]
    now = datetime.now(UTC)
    made = report(there, spark, since=now - timedelta(hours=1), until=now)
    (place / "report.html").write_text(html(made))
    yield "confirmed orders in the report", ORDERS - ORDERS // 100, succeeded(made.tasks, "order.confirm")
    yield "the failure that it puts first", "ConnectionError", made.failures[0].error_type


def triage(spark: "SparkSession", place: Path) -> Iterator[Row]:  # noqa: ARG001
    """Twenty mailboxes are full for one reason: one cluster, one replay."""
    from tasks import app

    from stem.pipeline.report.triage import replay
    from stem.pipeline.report.triage import triage as clusters

    [full] = [each for each in clusters(app.store) if each.task == "order.confirm"]
    yield "letters that died of the same", ORDERS // 100, full.count
    (place / "room").touch()
    replay(app.store, full.id)
    with worker(place):
        until(lambda: not waiting())
    yield "left after they were replayed: the order without a country", 1, app.store.broker.depth()["default"].dead


def whatif(spark: "SparkSession", place: Path) -> Iterator[Row]:  # noqa: ARG001
    """What other settings of the autoscaler would have done with these arrivals."""
    from tasks import app

    from stem.core.decisions.autoscale import Autoscale
    from stem.pipeline.whatif.grid import front, grid, predicted
    from stem.pipeline.whatif.simulate import Model
    from stem.pipeline.whatif.trace import of_lake

    trace = of_lake(spark, app.settings.pipeline.lake)
    points = predicted(spark, trace, grid(Autoscale(), minimum=[1, 2], maximum=[2, 4, 8]), Model())
    yield "settings compared", 6, len(points)
    yield "some of them beaten by none", True, 0 < len(front(points)) <= 6


# The props


def orders(spark: "SparkSession") -> "DataFrame":
    from pyspark.sql import functions as F

    numbers = spark.range(1, ORDERS + 1, numPartitions=2).select(F.col("id").cast("int").alias("order"))
    countries = F.array(*map(F.lit, ("AT", "FR", "IT", "NO")))
    return numbers.withColumn("amount", (F.col("order") * 37 % 1000) / 10.0).withColumn(
        "country", F.element_at(countries, F.col("order") % 4 + 1)
    )


@contextmanager
def worker(place: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "stem", "worker", "start", "--app", "tasks:app", "--concurrency", "2"]
    with (place / "worker.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=HERE, stderr=log)  # noqa: S603
    try:
        yield
    except BaseException:
        print((place / "worker.log").read_text()[-3000:])
        raise
    finally:
        process.terminate()
        process.wait()


def waiting() -> int:
    from tasks import app

    depth = app.store.broker.depth(["default"])["default"]
    return int(depth.ready + depth.delayed + depth.running)


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def succeeded(tasks: "list[TaskFigures]", name: str) -> int:
    return sum(each.now.succeeded for each in tasks if each.name == name)


def verdict(rows: list[Row]) -> int:
    for what, expected, seen in rows:
        print(
            f"{'held  ' if expected == seen else 'FAILED'}  {what}: {seen}{'' if expected == seen else f', not {expected}'}"
        )
    failed = sum(expected != seen for _, expected, seen in rows)
    print(f"{len(rows) - failed} of {len(rows)} expectations held.")
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="a folder to work in, which is left behind")
    kept = parser.parse_args().keep
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        sys.exit(main(kept.resolve()))
    with tempfile.TemporaryDirectory(prefix="stem-spark-", ignore_cleanup_errors=True) as folder:
        code = main(Path(folder))
    sys.exit(code)
