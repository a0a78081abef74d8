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


class Stoppable(Later):
    def invoke(self, ctx: click.Context) -> Any:
        with stoppable():
            return super().invoke(ctx)


@click.group(cls=Stoppable, homes=_HOMES)
def pipeline() -> None:
    """Feed Stem from DataFrames, and ask Spark what the fleet did.

    \b
    Example: stem pipeline doctor
    """
