"""`stem task`: what is known of a task, and what it returned."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from stem.cli import ending, paging, show, times
from stem.cli.later import Later
from stem.cli.session import Session, in_session
from stem.cli.task_export import export
from stem.core.lifecycle import State

if TYPE_CHECKING:
    from stem.contracts.store import Store
    from stem.core.record import TaskRecord


@click.group(cls=Later, homes={"revoke": "stem.cli.worker_control:revoke"})
def task() -> None:
    """Inspect tasks and their results; revoke tasks.

    \b
    Example: stem task list --state failed --since 1h
    """


task.add_command(export)


@task.command("show")
@click.argument("id")
@in_session
def show_task(session: Session, id: str) -> None:
    """Show all that is known of task ID.

    Its arguments are known until it has succeeded or was cancelled.

    \b
    Example: stem task show 0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00
    """
    from stem.cli import shapes
    from stem.core.envelope import check_id

    check_id(id)
    with session.app() as app:
        record = app.handle(id).status()
        body, due_at = _call(app.store, record)
    if session.as_json:
        more = {"args": body and shapes.arguments(body), "dueAt": due_at, "durationSeconds": _seconds(record)}
        show.json({**shapes.record(record), **more})
    else:
        show.facts(_facts(record, body, due_at))
        show.stack(record.error.stack if record.error else "")


@task.command("list")
@click.option("--state", type=click.Choice([state.value for state in State]), help="Only those in this state.")
@click.option("-Q", "--queue", help="Only those of this queue.")
@click.option("--name", help="Only those of this task name.")
@click.option("--since", type=times.DURATION_OR_MOMENT, help="Only those enqueued since: 1h, or an ISO moment.")
@click.option("--meta", "noted", metavar="KEY=VALUE", multiple=True, help="Only those whose meta has this; repeatable.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), metavar="N", default=50, show_default=True, help="Show at most N."
)
@click.option("--cursor", help="Go on where the last page ended.")
@in_session
def list_tasks(
    session: Session,
    state: str | None,
    queue: str | None,
    name: str | None,
    since: float | datetime | None,
    noted: tuple[str, ...],
    limit: int,
    cursor: str | None,
) -> None:
    """List tasks, newest first.

    \b
    Example: stem task list --state failed --since 1h
    """
    from stem.core.record import TaskFilter

    with session.store() as store:
        now = store.upkeep.now()
        start = times.since(since, now)
        where = TaskFilter(
            state=State(state) if state else None, queue=queue, name=name, since=start, meta=_meta(noted)
        )
        with paging.at(cursor):
            page = store.results.page(where, limit=limit, cursor=cursor)
    if session.as_json:
        from stem.cli import shapes

        show.json({"tasks": [shapes.record(each) for each in page.items], "cursor": page.cursor})
        return
    rows = [(r.id, r.name, r.queue, r.state, r.attempt + 1, times.age(r.enqueued_at, now)) for r in page.items]
    show.table(
        ("id", "task", "queue", "state", "try", "enqueued"),
        rows,
        empty="No task matches.",
        shrink=("task", "queue"),
        notes=[show.error(record.error) for record in page.items],
    )
    if page.cursor is not None:
        again = {"state": state, "queue": queue, "name": name, "limit": limit, "cursor": page.cursor}
        filters = [word for each in noted for word in ("--meta", each)]
        show.more(session.command("task", "list", *filters, since=start and start.isoformat(), **again))


def _meta(given: tuple[str, ...]) -> dict[str, Any] | None:
    """Values are JSON where they can be read as such (7, true), else texts. Raises UsageError."""
    import msgspec

    wanted: dict[str, Any] = {}
    for each in given:
        key, is_pair, text = each.partition("=")
        if not is_pair or not key:
            raise click.UsageError(f"--meta {each} is no pair; write it as --meta customer=acme.")
        try:
            wanted[key] = msgspec.json.decode(text)
        except msgspec.DecodeError:
            wanted[key] = text
    return wanted or None


@task.command()
@click.argument("id")
@click.option("--wait", type=times.DURATION, default=0.0, help="Wait this long for its end: 30, 30s, 5m.")
@in_session
def result(session: Session, id: str, wait: float) -> None:
    """Print what task ID returned, as JSON.

    If it failed, its error and exit code 70.

    \b
    Example: stem task result 0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00 --wait 30s
    """
    from stem.core.envelope import check_id

    check_id(id)
    with session.app() as app:
        ending.tell(app.handle(id), wait, as_json=session.as_json)


def _call(store: "Store", record: "TaskRecord") -> "tuple[bytes | None, datetime | None]":
    """The envelope as it was sent, and when the task is due if it waits; as far as the store still has them."""
    letter = store.deadletters.get(record.id) if record.state is State.FAILED else None
    if letter is not None:
        return letter.body, None
    found = None if record.is_terminal else store.broker.find(record.id)
    if found is None:
        return None, None
    return found.body, found.due_at if record.started_at is None else None


def _seconds(record: "TaskRecord") -> float | None:
    if record.started_at is None or record.finished_at is None:
        return None
    return round((record.finished_at - record.started_at).total_seconds(), 3)


def _facts(record: "TaskRecord", body: bytes | None, due_at: datetime | None) -> dict[str, object]:
    import msgspec

    from stem.cli.shapes import arguments

    args = body and arguments(body)
    seconds = _seconds(record)
    return {
        "id": record.id,
        "task": record.name,
        "args": None if args is None else bytes(args).decode(),
        "queue": record.queue,
        "state": record.state,
        "attempt": record.attempt,
        "priority": record.priority,
        "worker": record.worker,
        "enqueued": times.written(record.enqueued_at),
        "due": times.written(due_at) or None,
        "started": times.written(record.started_at) or None,
        "finished": times.written(record.finished_at) or None,
        "duration": None if seconds is None else f"{seconds:g} s",
        "result": None if record.payload is None else bytes(record.payload).decode(),
        "error": f"{record.error.type}: {record.error.message}" if record.error else None,
        "meta": msgspec.json.encode(record.meta).decode() if record.meta else None,
    }
