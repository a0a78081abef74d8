"""`stem pipeline whatif`: simulate other settings of the autoscaler on recorded load."""

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stem.cli.pipeline import options
from stem.cli.support import printing, times
from stem.cli.support.stores import Session, in_session
from stem.core.errors import UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from stem.core.decisions.autoscale import Autoscale
    from stem.pipeline.whatif.grid import Point
    from stem.pipeline.whatif.simulate import Trace

_RANGE = re.compile(r"(\d+(?:\.\d+)?)(?:\.\.(\d+(?:\.\d+)?)(?::(\d+(?:\.\d+)?))?)?", re.ASCII)
MOST_VALUES = 8  # of a range that does not say its step


class Range(click.ParamType[tuple[float, ...]]):
    """`4`, `1,2,4`, `1..8`, or `10..60:10`."""

    name = "range"

    def convert(
        self, value: str | tuple[float, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        if not isinstance(value, str):
            return value
        parts = [_RANGE.fullmatch(part.strip()) for part in value.split(",")]
        found = [number for part in parts if part is not None for number in _numbers(part)]
        if None in parts or not found:
            self.fail(f"{value!r} is no range; write 4, 1,2,4, 1..8 or 10..60:10", param, ctx)
        return tuple(dict.fromkeys(found))


def _numbers(part: "re.Match[str]") -> list[float]:
    """In a range without a step that has too many whole numbers, each value is double the one before."""
    first, last = float(part[1]), float(part[2] or part[1])
    step = float(part[3] or 1)
    count = int((last - first) / step) if step > 0 else -1
    if part[3] or count < MOST_VALUES:
        return [first + step * number for number in range(count + 1)]
    numbers = [first or 1.0]
    while numbers[-1] * 2 < last:
        numbers.append(numbers[-1] * 2)
    return [*([first] if first == 0 else []), *numbers, last]


@click.command()
@click.option("--min", "minimum", type=Range(), default="1..4", metavar="RANGE", help="Fewest isolates: 1..8.")
@click.option("--max", "maximum", type=Range(), default="4..32", metavar="RANGE", help="Most isolates: 4..32.")
@click.option("--idle", type=Range(), default="30", metavar="RANGE", help="Idle seconds before it shrinks: 10..60.")
@click.option("--step", type=Range(), default="2", metavar="RANGE", help="Isolates per step: 1,2,4.")
@click.option("--cool-down", type=Range(), metavar="RANGE", help="Seconds between two steps up.")
@click.option("--tick", type=times.DURATION, help="Decide this often.  [default: 2s]")
@click.option("--p95-wait", type=times.DURATION, help="Choose the cheapest setting that keeps this p95 wait: 5s.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Simulate N workers that share the load equally.",
)
@click.option("--queue", "queues", multiple=True, help="Only tasks of this queue; may be repeated.")
@click.option("--since", type=times.DURATION_OR_MOMENT, help="Only tasks enqueued since: 24h, 2030-01-31T09:00:00Z.")
@click.option(
    "--trace", "file", metavar="FILE", help="Read arrivals from a .csv, .parquet or .json file instead of the lake."
)
@click.option("--plot", metavar="FILE", help="Write the picture to this .html file.")
@options.lake
@options.spark
@in_session
def whatif(
    session: Session,
    minimum: Sequence[float],
    maximum: Sequence[float],
    idle: Sequence[float],
    step: Sequence[float],
    cool_down: Sequence[float] | None,
    tick: float | None,
    p95_wait: float | None,
    workers: int,
    queues: tuple[str, ...],
    since: "float | datetime | None",
    file: str | None,
    plot: str | None,
    lake: str | None,
    master: str | None,
    remote: str | None,
) -> None:
    """Replay recorded load through the autoscaler, over a grid of settings.

    Shows the settings that no other beats in both wait and cost, and the block for stem.yaml of the one to take.

    \b
    Example: stem pipeline whatif --min 1..8 --max 4..32 --p95-wait 5s
    """
    from stem.core.decisions.autoscale import Autoscale
    from stem.pipeline.lake.lake import open_lake
    from stem.pipeline.spark.session import session as spark
    from stem.pipeline.whatif.grid import chosen, grid, predicted
    from stem.pipeline.whatif.simulate import Model
    from stem.pipeline.whatif.trace import of_file, of_lake, shared

    values: dict[str, Any] = {
        "minimum": _whole(minimum, "--min"),
        "maximum": _whole(maximum, "--max"),
        "idle_seconds": idle,
        "scale_up_step": _whole(step, "--step"),
    }
    if cool_down is not None:
        values["scale_up_cool_down_seconds"] = cool_down
    base = Autoscale() if tick is None else Autoscale(tick_seconds=tick)
    configs = grid(base, **values)
    recorded, root = None if file is None else of_file(file), lake or session.settings().pipeline.lake
    if recorded is None:
        open_lake(root)  # check before Spark starts
    engine = spark("stem pipeline whatif", master=master, remote=remote)
    if recorded is None:
        recorded = of_lake(engine, root, queues=queues, since=times.since(since, time.time()))
    trace = shared(_filled(recorded), workers)
    points = predicted(engine, trace, configs, Model())
    pick = chosen(points, p95_wait)
    if plot is not None:
        _draw(plot, points, pick, trace)
    _show(session, points, pick, trace, p95_wait, plot)


def _filled(trace: "Trace") -> "Trace":
    if not trace.arrivals:
        raise UsageError(
            "No attempt was recorded there that has run; widen --since, or run 'stem pipeline run --once' first."
        )
    return trace


def _whole(values: Sequence[float], option: str) -> list[int]:
    if any(value != int(value) for value in values):
        raise UsageError(f"{option} counts isolates; write whole numbers.")
    return [int(value) for value in values]


def _show(
    session: Session, points: "list[Point]", pick: "Point", trace: "Trace", p95_wait: float | None, plot: str | None
) -> None:
    from stem.pipeline.whatif.grid import front, untried

    line = front(points)
    if session.as_json:
        shown = {
            "attempts": len(trace.arrivals),
            "tasks": len(trace.arrivals),  # its name in earlier versions
            "seconds": trace.seconds,
            "points": points,
            "front": line,
            "chosen": pick,
            "yaml": yaml_of(pick.config),
        }
        printing.json(shown)
        return
    click.echo(
        f"{len(trace.arrivals):,} attempts, {len(points):,} settings. These are beaten by none in both wait and cost:\n"
    )
    columns = ("", "min", "max", "idle", "step", "p50 wait", "p95 wait", "p99 wait", "isolate-hours", "moves")
    rows = line if pick in line else [*line, pick]
    printing.table(columns, [_row(point, is_chosen=point == pick) for point in rows], empty="")
    if p95_wait is not None and pick.prediction.p95_wait > p95_wait:
        advice = untried(points, pick)
        next_step = f"Try {', '.join(advice)}." if advice else "No wider range of these options would shorten it."
        click.echo(
            f"\nNone of them keeps the p95 wait below {p95_wait:g} s; the one with * comes nearest.\n{next_step}"
        )
    click.echo(f"\nFor stem.yaml:\n\n{yaml_of(pick.config)}", nl=False)
    if plot is not None:
        click.echo(f"\nThe picture is in {plot}.")


def _row(point: "Point", *, is_chosen: bool) -> tuple[object, ...]:
    config, found = point.config, point.prediction
    return (
        "*" if is_chosen else "",
        config.minimum,
        config.maximum,
        f"{config.idle_seconds:g} s",
        config.scale_up_step,
        _seconds(found.p50_wait),
        _seconds(found.p95_wait),
        _seconds(found.p99_wait),
        f"{found.isolate_hours:.3f}",
        found.moves,
    )


def _seconds(value: float) -> str:
    return f"{value:.3f} s" if value < 100 else f"{value:,.0f} s"


def yaml_of(config: "Autoscale") -> str:
    """The block as stem.yaml has it: what differs from the defaults, and the bounds in any case."""
    import msgspec
    import yaml

    from stem.core.decisions.autoscale import Autoscale

    usual = msgspec.to_builtins(Autoscale())
    told = {
        name: value
        for name, value in msgspec.to_builtins(config).items()
        if name in ("enabled", "min", "max", "idleSeconds", "scaleUpStep") or value != usual[name]
    }
    return str(yaml.safe_dump({"autoscale": told}, sort_keys=False))


def _draw(plot: str, points: "list[Point]", pick: "Point", trace: "Trace") -> None:
    from stem.pipeline.whatif.html import html

    subtitle = (
        f"{len(trace.arrivals):,} recorded attempts, replayed through the autoscaler with {len(points):,} settings."
    )
    try:
        Path(plot).write_text(html(points, pick, subtitle=subtitle, yaml=yaml_of(pick.config)), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"The picture cannot be written to {plot} ({error.strerror}); name another file.") from error
