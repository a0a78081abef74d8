"""`stem worker`: start workers, inspect and control them."""

import click

from stem.cli.support.lazy_group import LazyGroup

_HOMES = {
    "start": "stem.cli.worker.start",
    "status": "stem.cli.worker.status",
    "healthcheck": "stem.cli.worker.healthcheck",
    "diagnose": "stem.cli.worker.diagnose",
    "multi": "stem.cli.worker.multi",
}


class ControlGroup(LazyGroup):
    """Also has the control commands, which are imported when one of them is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from stem.cli.worker.control import control_names

        return sorted({*super().list_commands(ctx), *control_names()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            return found
        from stem.cli.worker.control import control_command

        return control_command(cmd_name)


@click.group(cls=ControlGroup, homes=_HOMES)
def worker() -> None:
    """Start workers, inspect and control them.

    \b
    Example: stem worker start --app shop.tasks:app
    """


@worker.group(cls=ControlGroup, homes={})
def control() -> None:
    """Inspect and control running workers. Each command also works without `control`.

    \b
    Example: stem worker control ping
    """
