"""One warm Spark session for all tests of the pipeline."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stem.pipeline.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Executors' Python must find what the tests define.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    spark = session("tests", master="local[2,4]", conf={"spark.sql.shuffle.partitions": "2"})
    yield spark
    spark.stop()
