"""`stem canvas`: list canvases, show how far they are, resume and revoke them."""

import time
from typing import TYPE_CHECKING, Any

import click

from stem.cli.support import completing, paging, printing, times
from stem.cli.support.flags import options
from stem.cli.support.stores import Session, in_session
from stem.core.lifecycle import State

if TYPE_CHECKING:
    from stem.client.app import Stem
    from stem.client.canvas.handle import CanvasHandle, CanvasStatus
    from stem.client.canvas.tree import TreeLine

FOLLOW_SECONDS = 1.0


@click.group
def canvas() -> None:
    """List canvases (chains, groups, chords, workflows), show, resume and revoke them.

    \b
    Example: stem canvas show 0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00
    """


@canvas.command("list")
@options.limit(20)
@options.cursor
@in_session
def list_canvases(session: Session, limit: int, cursor: str | None) -> None:
    """List canvases, newest first.

    \b
    Example: stem canvas list --limit 5
    """
    from stem.core.prerequisites import CANVAS
    from stem.core.record import TaskFilter

    with session.app() as app:
        now = app.store.upkeep.now()
        with paging.at_cursor(cursor):
            page = app.store.results.page(TaskFilter(name=CANVAS), limit=limit, cursor=cursor)
        found = [(record, app.canvas(record.id).status()) for record in page.items]
    if session.as_json:
        printing.json({"canvases": [_status(status) for _, status in found], "cursor": page.cursor})
        return
    rows = [
        (status.id, status.name or "", status.state, _share(status), times.age(record.enqueued_at, now))
        for record, status in found
    ]
    printing.table(
        ("id", "name", "state", "done", "submitted"),
        rows,
        empty="There is no canvas.",
        shrink=("name",),
        states=("state",),
    )
    if page.cursor is not None:
        printing.more(session.command("canvas", "list", limit=limit, cursor=page.cursor))


@canvas.command()
@click.argument("id", shell_complete=completing.canvas_ids)
@click.option("--follow", is_flag=True, help="Show it again until it has ended.")
@in_session
def show(session: Session, id: str, follow: bool) -> None:
    """Draw canvas ID as a tree, with states, durations and the critical path.

    ID is that of the canvas or of one of its tasks. The critical path is marked with *: the canvas could not have ended
    before these tasks. Tasks that were spawned, or took the place of another, are below the one that they came from.

    \b
    Example: stem canvas show 0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00 --follow
    """
    with session.app() as app:
        handle = _canvas(app, id)
        while True:
            status = _show(session, handle)
            if not follow or status.is_terminal:
                return
            time.sleep(FOLLOW_SECONDS)


@canvas.command()
@click.argument("id", shell_complete=completing.canvas_ids)
@in_session
def resume(session: Session, id: str) -> None:
    """Replay the failed tasks of canvas ID; what waits for them goes on.

    ID may be that of one of its tasks.

    \b
    Example: stem canvas resume 0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00
    """
    with session.app() as app:
        handle = _canvas(app, id)
        replayed = handle.resume()
    if session.as_json:
        printing.json({"id": handle.id, "replayed": replayed})
    elif replayed:
        click.echo(f"Replayed {_tasks(len(replayed))} of canvas {handle.id}.")
    else:
        click.echo(f"No task of canvas {handle.id} lies among the dead letters; nothing was replayed.")


@canvas.command()
@click.argument("id", shell_complete=completing.canvas_ids)
@click.option("--terminate", is_flag=True, help="Stop tasks that run as well.")
@click.option("--reason", default="", help="Say why; it is recorded.")
@in_session
def revoke(session: Session, id: str, terminate: bool, reason: str) -> None:
    """Revoke all tasks of canvas ID that have not ended.

    \b
    Example: stem canvas revoke 0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00 --terminate
    """
    with session.app() as app:
        revoked = app.canvas(id).revoke(terminate=terminate, reason=reason)
    if session.as_json:
        printing.json({"id": id, "revoked": revoked})
    else:
        click.echo(f"Revoked {_tasks(len(revoked))} of canvas {id}.")


def _canvas(app: "Stem", id: str) -> "CanvasHandle[Any]":
    """The canvas of this id, or the one that the task of this id is part of."""
    from stem.client.run.context import CANVAS_ID

    record = app.store.results.get([id], past_retention=True).get(id)
    canvas_id = None if record is None else record.meta.get(CANVAS_ID)
    return app.canvas(canvas_id if isinstance(canvas_id, str) else id)


def _show(session: Session, handle: "CanvasHandle[Any]") -> "CanvasStatus":
    status, lines = handle.tree()
    if session.as_json:
        printing.json({**_status(status), "tree": [_line(line) for line in lines]})
        return status
    printing.facts({"canvas": status.id, "name": status.name, "state": status.state, "done": _share(status)})
    names = {line.id: line.name for line in lines}
    rows = [
        (
            f"{'* ' if line.is_critical else '  '}{'  ' * line.depth}{line.name}{_note(line)}",
            _state(line, names),
            "" if line.seconds is None else f"{line.seconds:.2f} s",
            line.id or "",
        )
        for line in lines
    ]
    printing.table(("task", "state", "ran", "id"), rows, empty="It has no tasks.", shrink=("task",))
    for failure in status.failures[:5]:
        click.echo(printing.plain(f"{failure.name} failed: {printing.error(failure.error)}"))
    if status.failures:
        click.echo(f"Mend the cause, then run: {session.command('canvas', 'resume', status.id)}")
    return status


def _status(status: "CanvasStatus") -> dict[str, Any]:
    return {
        "id": status.id,
        "name": status.name,
        "state": status.state,
        "total": status.total,
        "counts": status.counts,
        "failures": status.failures,
    }


def _note(line: "TreeLine") -> str:
    notes = [note for note in (line.added, "aside" if line.aside else None) if note is not None]
    return f" ({', '.join(notes)})" if notes else ""


def _state(line: "TreeLine", names: dict[str | None, str]) -> str:
    if line.waits_for is not None:
        return f"waiting for the replay of {names.get(line.waits_for, line.waits_for)}"
    return line.state or _counts(line.counts)


def _line(line: "TreeLine") -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(line)
    return found


def _share(status: "CanvasStatus") -> str:
    return f"{status.counts.get(State.SUCCEEDED, 0):,} of {status.total:,}"


def _counts(counts: dict[State, int]) -> str:
    return ", ".join(f"{count:,} {state}" for state, count in counts.items())


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count:,} tasks"
