"""`stem worker`: run tasks, and steer those who do."""

import click

from stem.cli.later import Later

_CONTROL = {
    name: f"stem.cli.worker_control:{function}"
    for function, names in {
        "ping": ("ping",),
        "inspect": ("inspect", "list-active", "active"),
        "stats": ("stats",),
        "revoke": ("revoke",),
        "shutdown": ("shutdown",),
        "pause": ("pause",),
        "resume": ("resume",),
        "queue_status": ("queue-status",),
        "autoscale": ("autoscale",),
        "rate_limit": ("rate-limit",),
        "recycle": ("recycle",),
    }.items()
    for name in names
}
_HOMES = {
    "start": "stem.cli.worker_start",
    "status": "stem.cli.worker_status",
    "healthcheck": "stem.cli.worker_healthcheck",
    "diagnose": "stem.cli.worker_diagnose",
    "multi": "stem.cli.worker_multi",
}


@click.group(cls=Later, homes=_HOMES | _CONTROL)
def worker() -> None:
    """Run tasks.

    \b
    Example: stem worker start --app shop.tasks:app
    """


@worker.group(cls=Later, homes=_CONTROL)
def control() -> None:
    """Ask live workers, and steer them; each of these is also there without `control`.

    \b
    Example: stem worker control ping
    """
