"""`stem observe`: its commands, one file each."""

import click

from stem.cli.support.lazy_group import LazyGroup

_NOUNS = ("canvas", "dlq", "events", "queues", "retries", "schedules", "tasks", "workers")


@click.group(cls=LazyGroup, homes={noun: f"stem.cli.observe.{noun}" for noun in _NOUNS})
def observe() -> None:
    """Show tasks, queues, workers, schedules and events as they change.

    With --follow, a terminal shows the table anew every two seconds; elsewhere a line is added for each row that changes.

    \b
    Example: stem observe queues --follow
    """
