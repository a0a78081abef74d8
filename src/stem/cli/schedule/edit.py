"""`stem schedule add`, `remove`, `enable` and `disable`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from stem.cli.support import arguments, completing, confirm, printing, times
from stem.cli.support.flags import options
from stem.cli.support.stores import Session, in_session
from stem.core.errors import UsageError

if TYPE_CHECKING:
    from stem.contracts.schedules import Scheduled

_OVERLAP = click.Choice(["allow", "skip", "buffer-one", "cancel-other"])
_MISFIRE = click.Choice(["skip", "once", "all"])


@click.command()
@click.argument("schedule_id", metavar="ID")
@click.option("--task", required=True, metavar="NAME", help="Enqueue this task.")
@click.option("--spec", required=True, help="When: '0 2 * * *', 'every 5 minutes', 'at 2030-01-31T09:00', 'sunset'.")
@click.option("--args", "args_json", metavar="JSON|@FILE", help="All arguments as one JSON object; @- reads stdin.")
@click.option("--arg", "pairs", metavar="KEY=VALUE", multiple=True, help="One argument; JSON, or else text.")
@click.option("-Q", "--queue", help="Send the calls to this queue.")
@click.option("--time-zone", default="UTC", show_default=True, metavar="NAME", help="Read the schedule in this zone.")
@click.option("--latitude", type=float, metavar="DEGREES", help="Where the sun rises and sets.")
@click.option("--longitude", type=float, metavar="DEGREES", help="Where the sun rises and sets.")
@click.option("--jitter", "jitter_seconds", type=times.DURATION, default="0s", help="Delay each run by up to this.")
@click.option("--starts-at", type=times.MOMENT, help="Run no sooner than this moment.")
@click.option("--ends-at", type=times.MOMENT, help="Run no later than this moment.")
@click.option("--max-runs", type=click.IntRange(min=1), metavar="N", help="Stop after so many runs.")
@click.option("--misfire", type=_MISFIRE, default="once", show_default=True, help="What to do about missed runs.")
@click.option("--overlap", type=_OVERLAP, default="allow", show_default=True, help="While the run before goes on.")
@click.option("--pause-after-failures", type=click.IntRange(min=1), metavar="N", help="Disable it after N in a row.")
@click.option("--note", default="", help="Say what it is for.")
@click.option("--replace", is_flag=True, help="Change the schedule if there is one of this id.")
@in_session
def add(
    session: Session,
    schedule_id: str,
    args_json: str | None,
    pairs: tuple[str, ...],
    queue: str | None,
    replace: bool,
    **fields: Any,
) -> None:
    """Add schedule ID, which enqueues a task at the instants of its calendar.

    \b
    Example: stem schedule add nightly --task shop.report --spec "0 2 * * *"
    """
    from stem.contracts.schedules import ScheduleEntry
    from stem.core.envelope import check_queue
    from stem.scheduler.entries import EntryWriter, ScheduleChanged

    call = {} if queue is None else {"queue": check_queue(queue)}
    entry = ScheduleEntry(id=schedule_id, args=arguments.arguments(args_json, pairs), options=call, **fields)
    with session.store() as store:
        found = store.schedules.get(schedule_id)
        if found is not None and not replace:
            raise UsageError(f"There is a schedule {schedule_id!r} already; change it with --replace.")
        writer = EntryWriter.of(store, session.settings())
        saved = writer.save(writer.edited(entry, found), found)
    if saved is None:
        raise ScheduleChanged(f"Schedule {schedule_id} was written by somebody else at the same moment; look first.")
    _print(session, saved)


@click.command()
@click.argument("schedule_id", metavar="ID", shell_complete=completing.schedule_ids)
@options.yes
@in_session
def remove(session: Session, schedule_id: str, yes: bool) -> None:
    """Remove schedule ID; tasks that it has enqueued stay.

    \b
    Example: stem schedule remove nightly --yes
    """
    if not confirm.is_confirmed(f"Remove schedule {schedule_id}?", yes=yes):
        click.echo("Nothing was removed.", err=True)
        return
    with session.store() as store:
        if not store.schedules.delete(schedule_id):
            raise UsageError(f"There is no schedule {schedule_id!r}; see which there are with: stem schedule list")
    if session.as_json:
        printing.json({"id": schedule_id, "removed": True})
    else:
        click.echo(printing.plain(f"Removed {schedule_id}."))


def _switch(name: str, is_enabled: bool, summary: str) -> Callable[..., None]:
    @click.command(name, help=f"{summary}\n\n\b\nExample: stem schedule {name} nightly")
    @click.argument("schedule_id", metavar="ID", shell_complete=completing.schedule_ids)
    @click.option("--note", default="", help="Say why.")
    @in_session
    def switch(session: Session, schedule_id: str, note: str) -> None:
        from stem.scheduler.entries import EntryWriter

        with session.store() as store:
            writer = EntryWriter.of(store, session.settings())
            saved = writer.change(schedule_id, is_enabled=is_enabled, note=note)
        _print(session, saved)

    return switch


enable = _switch("enable", True, "Enable schedule ID; its next run is counted from now.")
disable = _switch("disable", False, "Disable schedule ID; it enqueues nothing until it is enabled.")


def _print(session: Session, saved: "Scheduled") -> None:
    from stem.cli.schedule.show import shape, words

    if session.as_json:
        printing.json(shape(saved))
        return
    upcoming = times.written(saved.state.instant) or "never"
    state = f"next {upcoming}" if saved.entry.is_enabled else "disabled"
    click.echo(printing.plain(f"{saved.entry.id}: {words(saved)}; {state}."))
