"""`stem observe events`: the event log, its newest lines or as it grows."""

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from stem.cli.observe import live
from stem.cli.support import completing, printing, times
from stem.cli.support.flags import options
from stem.cli.support.stores import Session, in_session
from stem.core.lifecycle import EventKind

if TYPE_CHECKING:
    from stem import Stem
    from stem.contracts.history import HistoryFilter
    from stem.contracts.store import Store
    from stem.core.event import Event

_WHEN, _KIND, _ID = 8, 15, 36  # columns of the screen


@click.command()
@click.option(
    "--task", "name", metavar="NAME", help="Only events of tasks of this name.", shell_complete=completing.task_names
)
@options.queue
@click.option("--id", "task_id", metavar="ID", help="Only events of this task.", shell_complete=completing.task_ids)
@click.option(
    "--kind", type=click.Choice([kind.value for kind in EventKind]), metavar="KIND", help="Only events of this kind."
)
@click.option("--since", type=times.DURATION_OR_MOMENT, help="Begin with events since: 1h, or an ISO moment.")
@options.limit(50)
@click.option("--follow", is_flag=True, help="Continue until Ctrl-C; with --json one line per event.")
@in_session
def events(
    session: Session,
    name: str | None,
    queue: str | None,
    task_id: str | None,
    kind: str | None,
    since: float | datetime | None,
    limit: int,
    follow: bool,
) -> None:
    """Show what happened to tasks and workers, oldest first.

    Without --since, the newest events. With --follow it goes on with what happens from now on, each event once,
    with its time of day in UTC.

    \b
    Example: stem observe events --follow --task mail.send
    """
    from stem.contracts.history import HistoryFilter

    with session.app() as app:
        store = app.store
        start = times.since(since, store.upkeep.now())
        where = HistoryFilter(kinds=(EventKind(kind),) if kind else None, name=name, queue=queue, since=start)
        head = store.events.head() or ""
        past: list[Event] = []
        if start is not None or not follow:
            past = _past(store, where, task_id, None if start is not None else limit)
        if session.as_json and not follow:
            printing.json({"events": past})
            return
        show = _printer(store, as_json=session.as_json, follows=follow)
        for event in past:
            show(event)
        if follow:
            after = past[-1].offset if past else head
            for event in _following(app, after, name=name, queue=queue, task_id=task_id, kind=kind):
                show(event)
        elif not past:
            click.echo("No event matches.")


def _past(store: "Store", where: "HistoryFilter", task_id: str | None, limit: int | None) -> "list[Event]":
    from stem.observe.event_log import EventFilter, matching_events, newest_events

    if limit is not None and task_id is None:
        kind = where.kinds[0].value if where.kinds else ""
        chosen = EventFilter(kind=kind, name=where.name or "", queue=where.queue or "")
        return newest_events(store, chosen, limit=limit)[::-1]
    found = [event for event in matching_events(store, where) if task_id in (None, event.task_id)]
    return found if limit is None else found[-limit:]


def _following(app: "Stem", after: str, **chosen: str | None) -> "Iterator[Event]":
    several = {word: [value] if value else [] for word, value in chosen.items()}
    return app.events.subscribe(
        after=after,
        names=several["name"],
        queues=several["queue"],
        task_ids=several["task_id"],
        kinds=several["kind"],
    )


def _printer(store: "Store", *, as_json: bool, follows: bool) -> "Callable[[Event], None]":
    now = store.upkeep.now()

    def show(event: "Event") -> None:
        # A line that stays on the screen while time goes on has the time of day: "now" would soon be wrong.
        when = f"{event.at.astimezone(UTC):%H:%M:%S}" if follows else _ago(event, now)
        click.echo(live.json_line(shape(event)) if as_json else line(event, when))
        sys.stdout.flush()

    return show


def shape(event: "Event") -> dict[str, Any]:
    import msgspec

    told: dict[str, Any] = msgspec.to_builtins(event)
    return told


def _ago(event: "Event", now: float) -> str:
    return "now" if abs(now - event.at.timestamp()) < 1 else times.age(event.at, now)


def line(event: "Event", when: str) -> str:
    """One event on a line, and what it tells beyond that on a second one."""
    subject = event.task_id or event.worker or ""
    front = f"{when:>{_WHEN}}  {printing.plain(event.kind.value):<{_KIND}}  {printing.plain(subject):<{_ID}}  "
    room = max(8, printing.screen_width() - len(front))
    first = f"{front}{printing.short(event.name, room)}".rstrip()
    first = first.replace(event.kind.value, printing.coloured(event.kind.value), 1)
    told = printing.short(_told(event), printing.screen_width() - _WHEN - 2)
    return f"{first}\n{'':{_WHEN + 2}}{told}" if told else first


def _told(event: "Event") -> str:
    data, error = event.data, event.data.get("error")
    if isinstance(error, dict):
        return f"{error.get('type')}: {error.get('message')}"
    if event.kind is EventKind.PROGRESS:
        return printing.progress(data.get("progress", data))
    return "  ".join(f"{name}={_text(value)}" for name, value in data.items())


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
