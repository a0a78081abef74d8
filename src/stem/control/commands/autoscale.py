"""Show or change how workers scale."""

from typing import Annotated, Any

import msgspec

from stem.control.registry import Call, Option, command


class AutoscaleFlags(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The keys of the `autoscale:` block as flags. The worker checks the values."""

    enabled: Annotated[bool | None, Option("--enabled/--disabled", "Switch scaling on or off.")] = None
    min: Annotated[int | None, Option("--min", "Fewest isolates per worker.", metavar="N")] = None
    max: Annotated[int | None, Option("--max", "Most isolates per worker.", metavar="N")] = None
    scale_up_step: Annotated[int | None, Option("--scale-up-step", "Add at most N at a time.", metavar="N")] = None
    scale_down_step: Annotated[int | None, Option("--scale-down-step", "Remove at most N at a time.", metavar="N")] = (
        None
    )
    idle_seconds: Annotated[
        str | None, Option("--idle", "Remove isolates after being idle this long: 30s.", metavar="DURATION")
    ] = None
    tick: Annotated[str | None, Option("--tick", "Decide this often: 2s.", metavar="DURATION")] = None
    scale_up_cool_down: Annotated[
        str | None, Option("--scale-up-cool-down", "Wait this long between steps up: 5s.", metavar="DURATION")
    ] = None
    scale_down_cool_down: Annotated[
        str | None, Option("--scale-down-cool-down", "Wait this long between steps down: 10s.", metavar="DURATION")
    ] = None
    scale_up_trigger: Annotated[
        float | None,
        Option("--scale-up-trigger", "Share of the intended backlog that triggers growth: 1.0.", metavar="X"),
    ] = None
    backlog_per_isolate: Annotated[
        float | None, Option("--backlog-per-isolate", "Waiting tasks intended per isolate: 2.0.", metavar="X")
    ] = None


def _rows(told: dict[str, Any]) -> list[tuple[object, ...]]:
    config = told["autoscale"]
    rest = " ".join(f"{name}={value:g}" for name, value in config.items() if name != "enabled")
    return [(f"{'on' if config['enabled'] else 'off'}, {rest}",)]


@command(
    "autoscale-config",
    aliases=("autoscale",),
    cli_names=("autoscale",),
    changes=True,
    options=AutoscaleFlags,
    rows=_rows,
)
def autoscale_config(call: Call[dict[str, Any]]) -> dict[str, Any]:
    """Show how workers scale, or change it until they are restarted.

    \b
    Example: stem worker autoscale --enabled --min 2 --max 10
    """
    return {"autoscale": call.worker.autoscale(call.payload)}
