"""`stem task logs`: what a task printed and logged."""

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from stem.cli.support import completing, printing
from stem.cli.support.stores import Session, in_session
from stem.core.text.escaping import plain_json

if TYPE_CHECKING:
    from stem.contracts.store import Store
    from stem.contracts.task_logs import LogLine

LOOK_SECONDS = 0.5
LINGER_SECONDS = 1.5  # after its end: workers write lines in batches


@click.command()
@click.argument("id", shell_complete=completing.task_ids)
@click.option("--follow", is_flag=True, help="Continue until the task has ended; with --json one line each.")
@in_session
def logs(session: Session, id: str, follow: bool) -> None:
    """Show what task ID has printed and logged, its newest thousand lines.

    Workers write lines to the store twice a second, and keep them for logs.ttl (a day); STEM_TASK_LOGS=0 keeps none.

    \b
    Example: stem task logs 0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00 --follow
    """
    from stem.core.envelope import check_id

    check_id(id)
    with session.app() as app:
        if follow:
            app.handle(id).status()  # raises TaskNotFound
            attempt = 0
            for line in _following(app.store, id):
                attempt = _print(line, attempt, as_json=session.as_json)
            return
        found = [each.line for each in app.store.task_logs.read(id)]
        if not found:
            app.handle(id).status()
    if session.as_json:
        printing.json({"id": id, "lines": [_shape(line) for line in found]})
        return
    attempt = 0
    for line in found:
        attempt = _print(line, attempt, as_json=False)
    if not found:
        click.echo(f"Nothing that {printing.plain(id)} printed is kept.")


def _following(store: "Store", task_id: str) -> "Iterator[LogLine]":
    position, ended_at = None, 0.0
    while True:
        record = store.results.get([task_id]).get(task_id)
        if not ended_at and (record is None or record.is_terminal):
            ended_at = time.monotonic()
        for each in store.task_logs.read(task_id, after=position):
            position = each.position
            yield each.line
        if ended_at and time.monotonic() - ended_at > LINGER_SECONDS:
            return
        time.sleep(LOOK_SECONDS)


def _print(line: "LogLine", attempt: int, *, as_json: bool) -> int:
    """Print a line, below a heading if an attempt begins with it; returns its attempt."""
    if as_json:
        import msgspec

        click.echo(plain_json(msgspec.json.encode(_shape(line)).decode()))
    else:
        if line.attempt != attempt:
            click.echo(f"-- attempt {line.attempt + 1}")
        first, *rest = line.text.splitlines() or [""]
        click.echo(f"{_moment(line):%H:%M:%S} {printing.plain(line.level.upper()):<7} {printing.plain(first)}")
        for more in rest:
            click.echo(f"{'':16}{printing.plain(more)}")
    sys.stdout.flush()
    return line.attempt


def _shape(line: "LogLine") -> dict[str, Any]:
    return {"at": _moment(line), "level": line.level, "attempt": line.attempt + 1, "text": line.text}


def _moment(line: "LogLine") -> datetime:
    return datetime.fromtimestamp(line.at, UTC)
