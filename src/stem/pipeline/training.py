"""The job that a JVM learns its classes from: a little of all that the pipeline does. Run by `java.train`."""

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main() -> None:
    from stem.pipeline import java

    if len(sys.argv) == 1:  # aside: nobody waits for it
        java.train(java.find())
    else:
        _practise(Path(sys.argv[1]))


def _practise(output: Path) -> None:
    from stem.pipeline import java
    from stem.pipeline.session import start

    spark = start("training", master="local[2]", java_options=java.find().training_options(output))
    gateway = spark.sparkContext._gateway
    assert gateway is not None  # noqa: S101 - it is there as long as the context is
    with tempfile.TemporaryDirectory(prefix="stem-training-") as folder:
        exercise(spark, Path(folder))
    spark.stop()
    # The archive is written when the JVM ends, which it does when its stdin closes.
    gateway.proc.stdin.close()
    gateway.proc.wait()


def exercise(spark: "SparkSession", folder: Path) -> int:
    """Shuffle, sketch, Python on Arrow, parquet out and in. Returns the number of rows that came back: 100."""
    from pyspark.sql import functions as F

    table = str(folder / "table")
    numbers = spark.range(100).withColumn("group", F.col("id") % 7)
    numbers.mapInArrow(lambda batches: batches, numbers.schema).write.parquet(table)
    back = spark.read.parquet(table)
    back.groupBy("group").agg(F.count("*"), F.expr("kll_sketch_agg_double(double(id), 800)")).collect()
    back.orderBy(F.desc("id")).limit(3).toPandas()
    return back.count()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["STEM_SPARK_ARCHIVE"] = "off"
    main()
