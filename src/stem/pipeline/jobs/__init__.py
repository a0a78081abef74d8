"""Tasks that are Spark jobs: a session for each, and all that runs on Spark ends with the attempt."""

from stem.pipeline.jobs.engine import SparkEngine

__all__ = ["SparkEngine"]
