"""`stem top`: choose between the live screen, a snapshot as text, and JSON."""

import sys

import click

from stem.cli.support import printing, times
from stem.cli.support.stores import Session, check_exists, check_shared, in_session
from stem.core.errors import ConfigError

LEAST_SECONDS = 0.1


@click.command()
@click.option("--every", type=times.DURATION, default=2.0, show_default="2s", help="Refresh this often.")
@in_session
def top(session: Session, every: float) -> None:
    """Show queues, workers, tasks and failures on one live screen.

    Keys: Tab moves between tables, Enter opens a task, p pauses and r resumes a queue, x revokes a task, y replays a dead
    letter, q quits. Without a terminal, or with --json, it prints a snapshot and ends.

    \b
    Example: stem top --every 1s
    """
    if every < LEAST_SECONDS:
        raise click.BadParameter(f"choose {LEAST_SECONDS:g}s or more.", param_hint="--every")
    from stem import Stem
    from stem.cli.top.reading import TopStore, print_snapshot

    with Stem(settings=check_exists(check_shared(session.settings()))) as app:
        store = TopStore(app)
        first = store.read()
        if session.as_json:
            printing.json(first.shape())
        elif all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):  # Textual draws on stderr
            try:
                from stem.cli.top.screen import TopApp
            except ImportError as error:
                raise ConfigError("stem top needs Textual; run: pip install 'stem-tasks[top]'") from error
            TopApp(store, first, every).run()
        else:
            print_snapshot(first)
