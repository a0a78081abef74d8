"""One warm Spark session for all tests of the pipeline."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

# Prepared classes live and go with the environment that the tests run in.
os.environ["STEM_CACHE_DIR"] = str(Path(sys.prefix) / "stem-cache")
os.environ["STEM_SPARK_ARCHIVE"] = "use"


# Those that start workers, servers or clusters with JVMs of their own.
SLOW = {
    "bulk/test_bulk_task",
    "jobs/test_cluster",
    "jobs/test_connect",
    "jobs/test_jobs",
    "jobs/test_killed",
    "lake/test_lake_buckets",
    "lake/test_lake_connect",
    "lake/test_lake_kills",
    "lake/test_lake_stores",
    "sink/test_sink_terminal",
    "spark/test_cluster",
    "spark/test_configure",
    "spark/test_stopping",
    "test_example",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test` runs what needs no Spark, `make test-spark` what does; one process, for a session costs half a gigabyte."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("spark")
            if item.path.relative_to(here).with_suffix("").as_posix() in SLOW:
                item.add_marker("slow")
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(300))  # the first of them waits for a JVM


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from stem.pipeline.spark import class_archive, java
    from stem.pipeline.spark.session import session

    # Executors' Python must find what the tests define.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    class_archive.write(java.find())
    spark = session("tests", master="local[2,4]", conf={"spark.sql.shuffle.partitions": "2"})
    yield spark
    spark.stop()
