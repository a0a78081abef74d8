"""`stem schedule list` and `show`: which schedules there are, when they run, and what became of it."""

from typing import TYPE_CHECKING, Any

import click

from stem.cli.support import completing, printing, times
from stem.cli.support.stores import Session, in_session

if TYPE_CHECKING:
    from stem.contracts.schedules import Scheduled
    from stem.contracts.store import Store

LINES = 10
_OWNERS = {"code": "the code", "file": "the configuration file", "runtime": "an operator"}


@click.command("list")
@in_session
def list_schedules(session: Session) -> None:
    """List schedules with their next and last runs.

    \b
    Example: stem schedule list --json
    """
    with session.store() as store:
        found, broken, now = store.schedules.all(), store.schedules.broken(), store.upkeep.now()
    if session.as_json:
        printing.json({"schedules": [shape(each) for each in found], "broken": broken})
        return
    columns = ("id", "task", "schedule", "state", "next", "last", "runs", "from")
    printing.table(
        columns,
        [_row(each, now) for each in found],
        empty="There are no schedules; add one with: stem schedule add ID --task NAME --spec '0 2 * * *'",
        shrink=("task", "schedule"),
        states=("state",),
    )
    for entry_id in broken:
        click.echo(
            printing.plain(f"warning: Schedule {entry_id} cannot be read; write it anew or remove it."), err=True
        )


@click.command()
@click.argument("schedule_id", metavar="ID", shell_complete=completing.schedule_ids)
@in_session
def show(session: Session, schedule_id: str) -> None:
    """Show one schedule: its calendar in words, its runs and their outcomes.

    \b
    Example: stem schedule show nightly
    """
    from stem.scheduler.entries import find

    with session.store() as store:
        found = find(store.schedules, schedule_id)
        outcomes = _outcomes(store, found)
    if session.as_json:
        printing.json({**shape(found), "outcomes": outcomes})
        return
    entry, state = found.entry, found.state
    printing.facts(
        {
            "id": entry.id,
            "task": entry.task,
            "schedule": f"{entry.spec} ({entry.time_zone})",
            "in words": words(found),
            "state": _state(found),
            "note": entry.note or None,
            "arguments": entry.shown_args or None,
            "options": entry.options or None,
            "overlap": entry.overlap,
            "misfire": entry.misfire,
            "next": times.written(state.instant) or None,
            "last": times.written(state.last_run_at) or None,
            "runs": state.run_count,
            "from": _OWNERS[entry.source] + (f" of {entry.origin}" if entry.origin else ""),
            "version": entry.version,
        }
    )
    rows = [
        (times.written(run.instant), run.task_id or "-", _told(outcomes.get(run.task_id or "", ""), run.reason))
        for run in reversed(state.history[-LINES:])
    ]
    if rows:
        click.echo()
        printing.table(("instant", "task id", "outcome"), rows, empty="", shrink=("outcome",))


def shape(found: "Scheduled") -> dict[str, Any]:
    """Return a schedule as JSON."""
    import msgspec

    state: dict[str, Any] = msgspec.to_builtins(found.state)
    args = {"args": found.entry.shown_args} if found.entry.args else {}
    told = {"words": words(found), "nextRunAt": state.pop("instant", None), "lastRunAt": None, "runCount": 0}
    defaults = {"isEnabled": True, "version": 1, "timeZone": "UTC", "overlap": "allow", "misfire": "once"}
    return {**defaults, "source": found.entry.source, **msgspec.to_builtins(found.entry), **args, **told, **state}


def words(found: "Scheduled") -> str:
    from stem.calendar.words import in_words
    from stem.client.schedules.check import calendar_of
    from stem.core.errors import InvalidSchedule

    try:
        return in_words(calendar_of(found.entry))
    except InvalidSchedule as error:
        return str(error)


def _row(found: "Scheduled", now: float) -> tuple[object, ...]:
    entry, state = found.entry, found.state
    upcoming = times.age(state.instant, now) if entry.is_enabled else ""
    return (
        entry.id,
        entry.task,
        words(found),
        _state(found),
        upcoming,
        times.age(state.last_run_at, now),
        state.run_count,
        entry.source,
    )


def _state(found: "Scheduled") -> str:
    if not found.entry.is_enabled:
        return "disabled"
    return "on" if found.state.instant is not None else "over"


def _told(outcome: str, reason: str) -> str:
    return f"{outcome}: {reason}" if outcome and reason else outcome or reason


def _outcomes(store: "Store", found: "Scheduled") -> dict[str, str]:
    ids = [run.task_id for run in found.state.history[-LINES:] if run.task_id is not None]
    return {task_id: record.state.value for task_id, record in store.results.get(ids).items()}
