"""`stem schedule` and its commands, each imported when it is used."""

import click

from stem.cli.support.lazy_group import LazyGroup

_HOMES = {
    "list": "show:list_schedules",
    "show": "show:show",
    "next": "next:show_next",
    "add": "edit:add",
    "remove": "edit:remove",
    "enable": "edit:enable",
    "disable": "edit:disable",
    "run": "run:run",
    "backfill": "run:backfill",
    "apply": "files:apply",
    "export": "files:export",
}


@click.group(cls=LazyGroup, homes={name: f"stem.cli.schedule.{home}" for name, home in _HOMES.items()})
def schedule() -> None:
    """List, add, change, run and preview schedules; `stem beat` enqueues them.

    \b
    Example: stem schedule add nightly --task shop.report --spec "0 2 * * *"
    """
