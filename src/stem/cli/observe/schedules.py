"""`stem observe schedules`: when schedules run next, and what became of their last runs."""

from typing import TYPE_CHECKING

import click

from stem.cli.observe import live
from stem.cli.support import times
from stem.cli.support.stores import Session, in_session

if TYPE_CHECKING:
    from stem.observe.schedules import ScheduleView


@click.command()
@live.follow
@in_session
def schedules(session: Session, follow: bool) -> None:
    """Show schedules: next run, last run and its outcome.

    \b
    Example: stem observe schedules --follow
    """
    with session.store() as store:
        from stem.observe.schedules import schedules as schedule_views

        def look() -> live.LiveTable:
            found, now = schedule_views(store), store.upkeep.now()
            return live.LiveTable(
                name="schedules",
                columns=("id", "task", "schedule", "state", "next", "last", "outcome", "runs"),
                rows=[_row(view, now) for view in found.views],
                empty="There are no schedules.",
                shrink=("id", "task", "schedule", "outcome"),
                states=("state", "outcome"),
                more={"broken": found.broken},
            )

        live.show(look, as_json=session.as_json, follows=follow)


def _row(view: "ScheduleView", now: float) -> live.LiveRow:
    entry, state = view.stored.entry, view.stored.state
    last = view.past[0] if view.past else None
    outcome = "" if last is None else last.state or last.run.reason
    upcoming = view.next_runs[0] if view.next_runs else None
    cells = (
        entry.id,
        entry.task,
        view.problem or view.words,
        view.status,
        times.age(upcoming, now),
        times.age(state.last_run_at, now),
        outcome,
        state.run_count,
    )
    shape = {
        "id": entry.id,
        "task": entry.task,
        "spec": entry.spec,
        "words": view.words,
        "problem": view.problem or None,
        "state": view.status,
        "nextRuns": view.next_runs,
        "lastRunAt": state.last_run_at,
        "lastOutcome": outcome or None,
        "runs": state.run_count,
        "failuresInARow": state.failures_in_a_row,
    }
    return live.LiveRow(entry.id, cells, shape)
