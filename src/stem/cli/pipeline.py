"""`stem pipeline`: the data pipeline on Spark. Its commands are loaded when they are called, Spark when they need it."""

from typing import Any

import click

from stem.cli.later import Later
from stem.cli.pipeline_stop import stoppable

_HOMES = {
    "bulk": "stem.cli.pipeline_bulk",
    "whatif": "stem.cli.pipeline_whatif",
    "doctor": "stem.cli.pipeline_doctor",
    "enqueue": "stem.cli.pipeline_enqueue",
    "run": "stem.cli.pipeline_run",
    "triage": "stem.cli.pipeline_triage",
    "sql": "stem.cli.pipeline_sql",
    "report": "stem.cli.pipeline_report",
    "minutes": "stem.cli.pipeline_minutes",
}


class Pipeline(Later):
    """A signal stops it in order. What Spark needs is an extra of its own: whoever has not installed it, or only half of it, is
    told how to."""

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


@click.group(cls=Pipeline, homes=_HOMES)
def pipeline() -> None:
    """Feed Stem from DataFrames, and ask Spark what the fleet did.

    \b
    Example: stem pipeline doctor
    """
