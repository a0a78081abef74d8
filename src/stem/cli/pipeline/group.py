"""`stem pipeline`: the data pipeline on Spark. Commands are imported when they are called."""

from typing import Any

import click

from stem.cli.pipeline.stop import stoppable
from stem.cli.support.lazy_group import LazyGroup

_HOMES = {
    "bulk": "stem.cli.pipeline.bulk",
    "whatif": "stem.cli.pipeline.whatif",
    "doctor": "stem.cli.pipeline.doctor",
    "enqueue": "stem.cli.pipeline.enqueue",
    "run": "stem.cli.pipeline.run",
    "triage": "stem.cli.pipeline.triage",
    "sql": "stem.cli.pipeline.sql",
    "report": "stem.cli.pipeline.report",
    "minutes": "stem.cli.pipeline.minutes",
}


class PipelineGroup(LazyGroup):
    """Handles signals, and names the missing extra if Spark is not installed or only partly."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with stoppable():
                return super().invoke(ctx)
        except ImportError as error:
            if (error.name or "").startswith("stem"):
                raise
            from stem.core.errors import ConfigError

            missing = (
                f"the package {error.name.partition('.')[0]!r}" if error.name else f"more than is installed ({error})"
            )
            remedy = "pip install 'stem-tasks[spark]', and see what else is missing with: stem pipeline doctor"
            raise ConfigError(f"The pipeline needs {missing}; {remedy}") from error


@click.group(cls=PipelineGroup, homes=_HOMES)
def pipeline() -> None:
    """Enqueue from DataFrames, and analyse history with Spark.

    \b
    Example: stem pipeline doctor
    """
