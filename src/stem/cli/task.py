"""`stem task`: list tasks, show them and their results."""

from datetime import datetime
from typing import TYPE_CHECKING

import click

from stem.cli.support import arguments, completing, paging, printing, task_ending, times
from stem.cli.support.flags import options
from stem.cli.support.lazy_group import LazyGroup
from stem.cli.support.stores import Session, in_session
from stem.cli.task_export import export
from stem.core.lifecycle import State

if TYPE_CHECKING:
    from stem.contracts.store import Store
    from stem.core.record import TaskRecord


@click.group(cls=LazyGroup, homes={"logs": "stem.cli.task_logs", "revoke": "stem.cli.worker.control:revoke"})
def task() -> None:
    """List tasks, show their results and what they printed, revoke tasks.

    \b
    Example: stem task list --state failed --since 1h
    """


task.add_command(export)


@task.command("show")
@click.argument("id", shell_complete=completing.task_ids)
@in_session
def show_task(session: Session, id: str) -> None:
    """Show everything that is known about task ID.

    Its arguments are known until it has succeeded or was cancelled.

    \b
    Example: stem task show 0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00
    """
    from stem.cli.support import json_forms
    from stem.core.envelope import check_id

    check_id(id)
    with session.app() as app:
        record = app.handle(id).status()
        body, due_at = _call(app.store, record)
        steps = app.store.steps.all(id)
    if session.as_json:
        more = {"args": body and json_forms.arguments(body), "dueAt": due_at, "durationSeconds": _seconds(record)}
        printing.json({**json_forms.record(record), **more, "steps": steps})
    else:
        printing.facts(_facts(record, body, due_at))
        if steps:
            rows = [(step.name, times.written(step.at), bytes(step.payload).decode()) for step in steps]
            printing.table(("step", "recorded", "result"), rows, empty="", shrink=("step", "result"))
        printing.stack(record.error.stack if record.error else "")


@task.command()
@click.argument("id", shell_complete=completing.task_ids)
@click.argument("event")
@click.option("--data", default="null", metavar="JSON", help="Data of the event; default: null.")
@in_session
def signal(session: Session, id: str, event: str, data: str) -> None:
    """Send EVENT to task ID, which waits for it now or will.

    The first event of a name counts; sending it again changes nothing.

    \b
    Example: stem task signal 0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00 approved
    """
    value = arguments.json_value(data, "--data")
    with session.app() as app:
        app.send_event(id, event, value)
    if session.as_json:
        printing.json({"id": id, "event": event})
    else:
        click.echo(printing.plain(f"Sent {event} to {id}."))


@task.command("list")
@options.state
@options.queue
@options.name
@options.enqueued_since
@click.option("--meta", metavar="KEY=VALUE", multiple=True, help="Only tasks with this in their meta; may be repeated.")
@options.limit(50)
@options.cursor
@in_session
def list_tasks(
    session: Session,
    state: str | None,
    queue: str | None,
    name: str | None,
    since: float | datetime | None,
    meta: tuple[str, ...],
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
            state=State(state) if state else None,
            queue=queue,
            name=name,
            since=start,
            meta=arguments.values(meta, "--meta") or None,
        )
        with paging.at_cursor(cursor):
            page = store.results.page(where, limit=limit, cursor=cursor)
    if session.as_json:
        from stem.cli.support import json_forms

        printing.json({"tasks": [json_forms.record(each) for each in page.items], "cursor": page.cursor})
        return
    rows = [(r.id, r.name, r.queue, r.state, r.attempt + 1, times.age(r.enqueued_at, now)) for r in page.items]
    printing.table(
        ("id", "task", "queue", "state", "try", "enqueued"),
        rows,
        empty="No task matches.",
        shrink=("task", "queue"),
        notes=[printing.error(record.error) for record in page.items],
        states=("state",),
    )
    if page.cursor is not None:
        again = {"state": state, "queue": queue, "name": name, "limit": limit, "cursor": page.cursor}
        filters = [word for each in meta for word in ("--meta", each)]
        printing.more(session.command("task", "list", *filters, since=start and start.isoformat(), **again))


@task.command()
@click.argument("id", shell_complete=completing.task_ids)
@click.option("--wait", type=times.DURATION, default=0.0, help="Wait this long for its end: 30, 30s, 5m.")
@in_session
def result(session: Session, id: str, wait: float) -> None:
    """Print what task ID returned, as JSON.

    If the task failed, print its error and exit with code 70.

    \b
    Example: stem task result 0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00 --wait 30s
    """
    from stem.core.envelope import check_id

    check_id(id)
    with session.app() as app:
        task_ending.print_outcome(app.handle(id), wait, as_json=session.as_json)


def _call(store: "Store", record: "TaskRecord") -> "tuple[bytes | None, datetime | None]":
    """Return the envelope as it was sent, and when a waiting task is due, as far as the store still has them."""
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

    from stem.cli.support import json_forms

    args = body and json_forms.arguments(body)
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
