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
    "test_bulk_task",
    "test_clean_environment",
    "test_cluster",
    "test_example",
    "test_jobs",
    "test_jobs_cluster",
    "test_jobs_connect",
    "test_jobs_killed",
    "test_lake_buckets",
    "test_lake_connect",
    "test_lake_kills",
    "test_lake_stores",
    "test_ready",
    "test_stopping",
    "test_sink_terminal",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test` runs what needs no Spark, `make test-spark` what does; one process, for a session costs half a gigabyte."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("spark")
            if item.path.stem in SLOW:
                item.add_marker("slow")
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(300))  # the first of them waits for a JVM


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from stem.pipeline import java
    from stem.pipeline.session import session

    # Executors' Python must find what the tests define.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    java.train(java.find())
    spark = session("tests", master="local[2,4]", conf={"spark.sql.shuffle.partitions": "2"})
    yield spark
    spark.stop()
