"""Stem on Apache Spark: tasks in from DataFrames, history out to a lake, and Spark jobs as tasks. Importing it loads no Spark."""

from stem.pipeline.ready import configure, use
from stem.pipeline.session import session

__all__ = ["configure", "session", "use"]
