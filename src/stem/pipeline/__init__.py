"""Stem on Apache Spark: DataFrames become tasks, history goes to a lake, Spark jobs run as tasks. Importing it loads no Spark."""

from stem.pipeline.spark.configure import configure, use
from stem.pipeline.spark.session import session

__all__ = ["configure", "session", "use"]
