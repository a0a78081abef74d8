"""`stem enqueue`: send one task by name."""

import sys
from typing import TYPE_CHECKING, Any, Literal

import click

from stem.cli.support import arguments, completing, printing, task_ending, times
from stem.cli.support.stores import Session, StoreNotFound, check_exists, in_session_without_app
from stem.core.errors import UsageError
from stem.core.settings.setting import did_you_mean

if TYPE_CHECKING:
    from stem import BroadcastHandle, Stem
    from stem.core.record import TaskRecord


@click.command()
@click.argument("name", shell_complete=completing.task_names)
@click.option("--args", "args_json", metavar="JSON|@FILE", help="All arguments as one JSON object; @- reads stdin.")
@click.option("--arg", "pairs", metavar="KEY=VALUE", multiple=True, help="One argument; JSON, or else text.")
@click.option(
    "-A",
    "--app",
    "path",
    metavar="MODULE:NAME",
    envvar="STEM_APP",
    help="Check name and arguments against this app.  [env: STEM_APP]",
)
@click.option(
    "-Q", "--queue", help="Send it to this queue instead of the task's own.", shell_complete=completing.queues
)
@click.option("--priority", type=click.IntRange(0, 9), metavar="0-9", help="Start tasks with a higher number first.")
@click.option("--delay", type=times.DURATION, help="Start it no sooner than this from now: 10s, 5m.")
@click.option("--not-before", type=times.MOMENT, help="Start it no sooner than 2030-01-31T09:00:00Z.")
@click.option(
    "--expires", type=times.DURATION_OR_MOMENT, help="Drop it unless it has started by then: 1h, or an ISO moment."
)
@click.option("--id", "task_id", help="Use your own id; enqueueing the same id again changes nothing.")
@click.option("--header", "headers", metavar="KEY=VALUE", multiple=True, help="Send this text along with the task.")
@click.option("--meta", metavar="KEY=VALUE", multiple=True, help="Note this in its record; JSON, or else text.")
@click.option(
    "--max-retries",
    type=click.IntRange(min=0),
    metavar="N",
    help="Retry it this often before it becomes a dead letter.",
)
@click.option("--unique", metavar="until_done|DURATION", help="Return the first call's id if this one is a duplicate.")
@click.option(
    "--sensitive", metavar="NAME", multiple=True, help="Show nobody this argument; the task gets it. May be repeated."
)
@click.option("--wait", type=times.DURATION, help="Wait up to this long, then print its result.")
@in_session_without_app
def enqueue(
    session: Session,
    name: str,
    args_json: str | None,
    pairs: tuple[str, ...],
    path: str | None,
    task_id: str | None,
    headers: tuple[str, ...],
    meta: tuple[str, ...],
    unique: str | None,
    sensitive: tuple[str, ...],
    wait: float | None,
    **options: Any,
) -> None:
    """Enqueue task NAME and print its id.

    With --app the name must be known to the app and the arguments must fit. Without it they are sent unchecked, to the queue
    and with the retries that running workers name for the task, else to `default` with 3; the rules of stem.yaml hold, those
    in the app's code do not. A broadcast prints the id of each worker's copy.

    \b
    Example: stem enqueue mail.send --arg to=ada@example.com --delay 5m
    """
    call = {
        "args": arguments.arguments(args_json, pairs),
        "headers": arguments.texts(headers, "--header"),
        "meta": arguments.values(meta, "--meta"),
        "unique": _unique(unique),
        "sensitive": sensitive or None,
        "id": task_id,
        **options,
    }
    with session.sending_app(path) as app:
        if not path:
            call = _routed(app, name, call)
        handle = app.enqueue(name, check=bool(path), **call)
        from stem.client.send.broadcast import BroadcastHandle

        if isinstance(handle, BroadcastHandle):
            _print_broadcast(handle, wait, as_json=session.as_json)
            return
        if wait is None and session.as_json:
            printing.json({"id": handle.id, "created": handle.created})
        elif not session.as_json:
            click.echo(handle.id)
            sys.stdout.flush()  # while waiting for a long task, the id may be wanted already
        if wait is not None:
            task_ending.print_outcome(handle, wait, as_json=session.as_json)


def _print_broadcast(handle: "BroadcastHandle", wait: float | None, *, as_json: bool) -> None:
    """Print the id of each worker's copy; after a wait the values, or raise the error of the first that failed."""
    if wait is None:
        tasks = [{"worker": worker, "id": each.id, "created": each.created} for worker, each in handle.handles.items()]
        if as_json:
            printing.json({"broadcast": handle.id, "tasks": tasks})
        else:
            printing.table(("id", "worker"), [(each["id"], each["worker"]) for each in tasks], empty="")
        return
    records = handle.wait(wait)
    if as_json:
        told = [
            {"worker": worker, "id": each.id, "state": each.state, "result": each.payload, "error": each.error}
            for worker, each in records.items()
        ]
        printing.json({"broadcast": handle.id, "tasks": told})
    else:
        rows = [(worker, each.state, printing.error(each.error) or _result(each)) for worker, each in records.items()]
        printing.table(("worker", "state", "result"), rows, empty="", shrink=("result", "worker"))
    for worker, each in handle.handles.items():
        each.value_of(records[worker])


def _result(record: "TaskRecord") -> str:
    return "null" if record.payload is None else bytes(record.payload).decode()


def _routed(app: "Stem", name: str, call: dict[str, Any]) -> dict[str, Any]:
    """Add the queue and the retries that a running worker announces for the task, unless flags name them. Anybody who can
    write to the store can announce such things, so a signed call does not follow them."""
    if app.settings.signing_keys:
        if call["queue"] is None:
            click.echo("warning: Without --app or --queue a signed call goes to the queue 'default'.", err=True)
        return call
    try:
        check_exists(app.settings)
    except StoreNotFound:
        return call  # it is created when the call is known to be valid
    from stem.client.send.retry import retry_while_unavailable

    pulses = retry_while_unavailable(lambda: app.store.heartbeats.all(), app.settings.timeout_seconds)
    announced = [pulse.heartbeat.extras.get("tasks") for pulse in pulses]
    tables = [each for each in announced if isinstance(each, dict) and each]
    for tasks in tables:
        match tasks.get(name):
            case [str(queue), int(max_retries)]:
                # A rule of stem.yaml counts before what a worker announces.
                route = app.sender(name, check=False).definition.route
                is_routed = route is not None and (route.queue is not None or route.broadcast)
                routed = {"queue": None if is_routed else queue, "max_retries": max_retries}
                return {**call, **{key: value for key, value in routed.items() if call[key] is None}}
            case _:
                continue
    if tables:
        known = {each: each for tasks in tables for each in tasks}
        click.echo(printing.plain(f"warning: No running worker has a task {name}{did_you_mean(name, known)}"), err=True)
    return call


def _unique(text: str | None) -> Literal["until_done"] | float | None:
    if text is None:
        return None
    if text == "until_done":
        return "until_done"
    seconds = times.duration(text)
    if not seconds:
        raise UsageError(f"--unique {text!r} is neither until_done nor a duration such as 10m.")
    return seconds
