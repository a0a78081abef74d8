"""The options that several commands share."""

import click

from stem.cli.support import completing, times
from stem.cli.support.flags.several import Option
from stem.core.lifecycle import State

quiet_traceback = click.option("--traceback", is_flag=True, expose_value=False, help="Show where an error came from.")
yes = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
queue = click.option("-Q", "--queue", help="Only tasks of this queue.", shell_complete=completing.queues)
name = click.option("--name", help="Only tasks of this name.", shell_complete=completing.task_names)
state = click.option("--state", type=click.Choice([each.value for each in State]), help="Only tasks in this state.")
enqueued_since = click.option(
    "--since", type=times.DURATION_OR_MOMENT, help="Only tasks enqueued since: 1h, or an ISO moment."
)


cursor = click.option("--cursor", help="Continue where the last page ended.")


def limit(default: int) -> Option:
    bounds = click.IntRange(1, 10_000)
    return click.option("--limit", type=bounds, metavar="N", default=default, show_default=True, help="Show at most N.")
