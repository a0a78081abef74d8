"""`stem enqueue`: send one task by name."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import click

from stem.cli import arguments, ending, show, times
from stem.cli.session import (
    Session,
    StoreNotFound,
    check_exists,
    check_flags_hold,
    check_shared,
    in_session_without_app,
)
from stem.core.errors import UsageError
from stem.core.option import near

if TYPE_CHECKING:
    from stem import Stem


@click.command()
@click.argument("name")
@click.option("--args", "args_json", metavar="JSON|@FILE", help="All arguments as a JSON object; @- reads stdin.")
@click.option("--arg", "pairs", metavar="KEY=VALUE", multiple=True, help="One argument; JSON, or else text.")
@click.option(
    "-A", "--app", "path", metavar="MODULE:NAME", envvar="STEM_APP", help="Check against this app.  [env: STEM_APP]"
)
@click.option("-Q", "--queue", help="Another queue than the task's own.")
@click.option("--priority", type=click.IntRange(0, 9), metavar="0-9", help="9 goes first.")
@click.option("--delay", type=times.DURATION, help="Not before this long from now: 10s, 5m.")
@click.option("--not-before", type=times.MOMENT, help="Not before this moment: 2030-01-31T09:00:00Z.")
@click.option("--expires", type=times.DURATION_OR_MOMENT, help="Drop it if it has not started by then.")
@click.option("--id", "task_id", help="Your own id; the same id again changes nothing.")
@click.option("--header", "headers", metavar="KEY=VALUE", multiple=True, help="Text that travels with the task.")
@click.option("--meta", metavar="KEY=VALUE", multiple=True, help="A note in its record; JSON, or else text.")
@click.option("--max-retries", type=click.IntRange(min=0), metavar="N", help="Retries before it becomes a dead letter.")
@click.option("--unique", metavar="until_done|DURATION", help="Not if an equal one is held.")
@click.option("--wait", type=times.DURATION, help="Wait this long for its end, then print its result.")
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
    wait: float | None,
    **options: Any,
) -> None:
    """Enqueue task NAME and print its id.

    With --app the name must be known to the app and the arguments must fit. Without it they are sent unchecked, to the queue
    and with the retries that running workers name for the task, else to `default` with 3.

    \b
    Example: stem enqueue mail.send --arg to=ada@example.com --arg copies=2 --delay 5m
    """
    call = {
        "args": arguments.arguments(args_json, pairs),
        "headers": arguments.texts(headers, "--header"),
        "meta": arguments.values(meta, "--meta"),
        "unique": _unique(unique),
        "id": task_id,
        **options,
    }
    with _app(session, path) as app:
        if not path:
            call = _routed(app, name, call)
        handle = app.enqueue(name, check=bool(path), **call)
        if wait is None and session.as_json:
            show.json({"id": handle.id, "created": handle.created})
        elif not session.as_json:
            click.echo(handle.id)
            sys.stdout.flush()  # whoever waits for a long task may want to know it now
        if wait is not None:
            ending.tell(handle, wait, as_json=session.as_json)


@contextmanager
def _app(session: Session, path: str | None) -> "Iterator[Stem]":
    """The user's app, or one that knows no tasks; either on the store that the flags name."""
    from stem import Stem

    if not path:
        app = Stem(settings=session.settings())
    else:
        from stem.client import loading

        os.environ.update(session.environment())  # before the import: that is when an app reads its settings
        app = loading.load(path)
        check_flags_hold(session, app.settings, path)
    check_shared(app.settings)
    try:
        yield app
    finally:
        app.close()


def _routed(app: "Stem", name: str, call: dict[str, Any]) -> dict[str, Any]:
    """With the queue and the retries that a running worker has told for the task, where the flags name none. Anybody who can
    write to the store can tell such things, so what is signed does not follow them."""
    if app.settings.signing_keys:
        if call["queue"] is None:
            click.echo("warning: Without --app or --queue a signed call goes to the queue 'default'.", err=True)
        return call
    try:
        check_exists(app.settings)
    except StoreNotFound:
        return call  # it is made when the call is known to be a good one
    from stem.client.patience import patiently

    pulses = patiently(lambda: app.store.heartbeats.all(), app.settings.timeout_seconds)
    told = [pulse.heartbeat.extras.get("tasks") for pulse in pulses]
    tables = [each for each in told if isinstance(each, dict) and each]
    for tasks in tables:
        match tasks.get(name):
            case [str(queue), int(max_retries)]:
                routed = {"queue": queue, "max_retries": max_retries}
                return {**call, **{key: value for key, value in routed.items() if call[key] is None}}
            case _:
                continue
    if tables:
        known = {each: each for tasks in tables for each in tasks}
        click.echo(show.plain(f"warning: No running worker has a task {name}{near(name, known)}"), err=True)
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
