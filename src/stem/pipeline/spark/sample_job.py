"""A short job that does a little of everything the pipeline does: `doctor` checks Spark with it, the JVM trains on it."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 100


def run(spark: "SparkSession", folder: Path) -> int:
    """Shuffle, sketch, Python on Arrow, Parquet out and in. Returns the number of rows read back: ROWS."""
    from pyspark.sql import functions as F

    table = str(folder / "table")
    numbers = spark.range(ROWS).withColumn("group", F.col("id") % 7)
    numbers.mapInArrow(lambda batches: batches, numbers.schema).write.parquet(table)
    back = spark.read.parquet(table)
    back.groupBy("group").agg(F.count("*"), F.expr("kll_sketch_agg_double(double(id), 800)")).collect()
    back.orderBy(F.desc("id")).limit(3).toPandas()
    return back.count()
