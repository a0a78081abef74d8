"""`stem schedule next`: show when a schedule expression comes due."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from stem.cli.support import printing, times
from stem.cli.support.flags import options, several

if TYPE_CHECKING:
    from stem.calendar.entry import Entry


@click.command("next")
@click.argument("expression")
@click.option("-n", "count", type=click.IntRange(1, 1_000), metavar="N", default=5, show_default=True, help="Show N.")
@click.option("--time-zone", metavar="ZONE", default="UTC", show_default=True, help="Whose clocks count.")
@click.option("--after", type=times.MOMENT, help="Start after 2030-01-31T09:00:00Z instead of now.")
@click.option("--latitude", type=float, metavar="DEGREES", help="Of a solar entry; north is positive.")
@click.option("--longitude", type=float, metavar="DEGREES", help="Of a solar entry; east is positive.")
@several.json_output
@options.quiet_traceback
def show_next(
    expression: str,
    count: int,
    time_zone: str,
    after: datetime | None,
    latitude: float | None,
    longitude: float | None,
    as_json: bool,
) -> None:
    """Show in words when EXPRESSION comes due, and its next instants.

    EXPRESSION is a cron line of five fields, or of six with seconds first; a macro
    such as @daily; 'every 5 minutes'; 'at 2030-01-31T09:00'; or dawn, sunrise,
    noon, sunset or dusk with a place.

    \b
    Example: stem schedule next "0 9 * * mon-fri" --time-zone Europe/Berlin
    """
    from stem.calendar.parse import parse
    from stem.calendar.wall_clock import zone
    from stem.calendar.words import in_words

    entry = parse(expression, time_zone, latitude=latitude, longitude=longitude)
    rows = [(instant.astimezone(zone(time_zone)), instant) for instant in _instants(entry, after, count)]
    if as_json:
        found = [{"local": local.isoformat(), "utc": times.written(instant)} for local, instant in rows]
        printing.json({"expression": expression, "words": in_words(entry), "timeZone": time_zone, "next": found})
        return
    click.echo(f"{in_words(entry)}; local times are {time_zone}.\n")
    cells = [(f"{local:%a}", local.isoformat(), times.written(instant)) for local, instant in rows]
    printing.table(("day", "local", "UTC"), cells, empty="It does not come again.")


def _instants(entry: "Entry", after: datetime | None, count: int) -> list[datetime]:
    found: list[datetime] = []
    instant = entry.next_after(after or datetime.now(UTC))
    while instant is not None and len(found) < count:
        found.append(instant)
        instant = entry.next_after(instant)
    return found
