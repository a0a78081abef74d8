"""Make a Spark session that the user builds himself ready for Stem: in notebooks, under spark-submit, through Spark Connect."""

import os
import sys
from typing import TYPE_CHECKING

from stem.core.errors import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PYTHONS = "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"
# Filters that Spark pushes into a Python source stay there for later queries, which then miss rows.
_CONF = {"spark.sql.python.filterPushdown.enabled": "false"}


def configure(builder: "SparkSession.Builder") -> "SparkSession.Builder":
    """Before `getOrCreate()`: Spark runs on this Python, not on the first `python3` of the PATH, and on a Java that is found or
    came with `stem-tasks[spark]`. What the environment or the builder says stays. Raises SparkUnavailable."""
    from stem.pipeline.spark import java
    from stem.pipeline.spark.session import need_pyspark

    need_pyspark()
    for variable in _PYTHONS:
        os.environ.setdefault(variable, sys.executable)
    if "JAVA_HOME" not in os.environ and "SPARK_REMOTE" not in os.environ:
        os.environ["JAVA_HOME"] = str(java.find().home)
    for key, value in _CONF.items():
        builder = builder.config(key, value)
    return builder


def use(spark: "SparkSession") -> "SparkSession":
    """After `getOrCreate()`: `format("stem")` is known to this session, and read by a Python that has Stem. The same session
    comes back. Raises SparkUnavailable."""
    from pyspark_stem import DefaultSource

    context = getattr(spark, "_sc", None)
    if context is not None and context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable  # what runs elsewhere has paths of its own
    try:
        spark.dataSource.register(DefaultSource)
        for key, value in _CONF.items():
            spark.conf.set(key, value)
    except Exception as error:
        raise SparkUnavailable(
            f"This session cannot use Stem ({str(error).strip().partition(chr(10))[0][:200]}); install stem-tasks[spark] in the "
            "Python that Spark runs, and name it by PYSPARK_PYTHON."
        ) from error
    return spark
