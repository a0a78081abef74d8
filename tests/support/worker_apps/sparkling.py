"""Tasks that run on Spark, and write down outside of it what they do, and when."""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stem import SoftTimeLimitExceeded, Stem, TaskContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

app = Stem(retry=0.02, max_retries=1)


@app.task(name="sums", engine="spark")
def sums(spark: "SparkSession", upto: int) -> int:
    found = spark.range(upto).groupBy().sum("id").first()
    return int(found[0]) if found is not None else 0


@app.task(name="steps", engine="spark")
def steps(session: "SparkSession", file: str, parts: int, seconds: float) -> int:
    """Each part of it takes a while, on one of two places."""
    return _written(session, file, "0", parts, seconds).count()


@app.task(name="writes", engine="spark")
def writes(ctx: TaskContext, spark: Any, file: str) -> None:
    """In the Python of two Spark tasks, which never end by themselves."""
    _written(spark, file, str(ctx.attempt + ctx.delivery.deaths), 2, 3600).count()


@app.task(name="writes-until", engine="spark")
def writes_until(spark: Any, file: str, end: str) -> int:
    """The same, in the name of this isolate, until there is a file of that name."""
    return _written(spark, file, str(os.getpid()), 2, 3600, end).count()


@app.task(name="shuffles", engine="spark")
def shuffles(spark: Any, file: str) -> int:
    """Minutes of it, all in the JVM."""
    Path(file).write_text("begun")
    pairs = spark.range(0, 10**11, 1, 4).selectExpr("id % 1000003 AS key", "id")
    return int(pairs.groupBy("key").sum().count())


@app.task(name="gives-what-it-has", engine="spark", soft_limit=20)
def gives_what_it_has(spark: "SparkSession", file: str) -> list[Any]:
    try:
        return [_written(spark, file, "0", 2, 3600).count()]
    except SoftTimeLimitExceeded:
        return ["soft", spark.range(7).count()]


@app.task(name="stops-it", engine="spark")
def stops_it(spark: Any) -> None:
    """What no handler should do."""
    spark.stop()


@app.task(name="pids", engine="spark")
def pids(spark: "SparkSession") -> list[int]:
    """Of the isolate and of its JVM."""
    return [os.getpid(), spark.sparkContext._gateway.proc.pid]  # type: ignore[union-attr]


def _written(
    spark: "SparkSession", file: str, who: str, parts: int, seconds: float, end: str | None = None
) -> "DataFrame":
    def write(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            until = time.time() + seconds
            while time.time() < until and (end is None or not os.path.exists(end)):
                with open(file, "a") as marks:
                    marks.write(f"{who} {time.time()}\n")
                time.sleep(0.01)
            yield batch

    return spark.range(0, parts, 1, parts).mapInArrow(write, "id long")
