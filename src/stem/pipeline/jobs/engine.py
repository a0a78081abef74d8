"""The engine "spark": gives a task a session, and ends everything of the task with its attempt."""

import os
from collections.abc import Callable
from typing import Any

from stem.contracts.engine import Attempt, Engine
from stem.pipeline.jobs.classic import Classic
from stem.pipeline.jobs.connect import Connect
from stem.pipeline.spark.session import need_pyspark
from stem.runtime.configfile import configured

PARAMETER, CLASS = "spark", "SparkSession"


class SparkEngine(Engine):
    def __init__(self) -> None:
        """Raises SparkUnavailable, ConfigError."""
        need_pyspark()
        settings = configured(os.environ).pipeline
        self._where = Connect(settings.remote, settings.conf) if settings.remote else Classic(settings.conf)

    @classmethod
    def fills(cls, parameter: str, hint: object) -> bool:
        named = hint if isinstance(hint, str) else getattr(hint, "__name__", "")
        return named.split(".")[-1].strip() == CLASS or (parameter == PARAMETER and hint in (None, Any))

    @classmethod
    def bulk(cls, app: Any, name: str) -> Any:
        from stem.pipeline.bulk.bulk import DataFrameBulk  # here: it needs pyarrow, which a job does not

        return DataFrameBulk(app, name)

    def run(self, call: Callable[..., Any], parameter: str | None, attempt: Attempt) -> Any:
        def with_session(spark: Any) -> Any:
            return call() if parameter is None else call(**{parameter: spark})

        return self._where.run(with_session, attempt, tag_of(attempt))

    def reap(self, key: str) -> None:
        self._where.reap(key)

    def close(self) -> None:
        self._where.close()


def tag_of(attempt: Attempt) -> str:
    """Spark separates tags by commas."""
    return f"stem:{attempt.id}:{attempt.attempt}".replace(",", "_")
