"""The page of a what-if: cost against wait for every setting, those worth having, and the chosen one as YAML."""

from collections.abc import Sequence
from html import escape

from stem.pipeline.html import plots
from stem.pipeline.html.page import page, section, table
from stem.pipeline.html.plots import Dot
from stem.pipeline.whatif.grid import Point, front

_COLUMNS = ("min", "max", "idle", "step", "p50 wait", "p95 wait", "p99 wait", "isolate-hours", "moves")


def html(points: Sequence[Point], pick: Point, *, subtitle: str, yaml: str) -> str:
    best = front(points)
    rows = best if pick in best else [*best, pick]
    dots = [*(_dot(point, "other") for point in points), *(_dot(point, "wait") for point in best), _dot(pick, "pick")]
    plot = plots.scatter(dots, line=[_place(point) for point in best], label=_name(pick), y_label=_seconds)
    body = (
        section("p95 wait (upwards) by isolate-hours (to the right)", plot)
        + section(
            "Settings that no other beats in both", table(_COLUMNS, list(map(_row, rows)), chosen=rows.index(pick))
        )
        + section("The chosen one, for stem.yaml", f"<pre>{escape(yaml)}</pre>")
    )
    return page("What if the worker scaled otherwise?", f'<p class="quiet">{escape(subtitle)}</p>', body)


def _dot(point: Point, style: str) -> Dot:
    found = point.prediction
    title = f"{_name(point)}: p95 wait {_seconds(found.p95_wait)}, {found.isolate_hours:.3g} isolate-hours"
    return Dot(*_place(point), style, title)


def _place(point: Point) -> tuple[float, float]:
    return point.prediction.isolate_hours, point.prediction.p95_wait


def _row(point: Point) -> list[str]:
    config, found = point.config, point.prediction
    return [
        str(config.minimum),
        str(config.maximum),
        _seconds(config.idle_seconds),
        f"{config.scale_up_step}",
        *map(_seconds, (found.p50_wait, found.p95_wait, found.p99_wait)),
        f"{found.isolate_hours:.3g}",
        str(found.moves),
    ]


def _name(point: Point) -> str:
    config = point.config
    return f"{config.minimum} to {config.maximum}, idle {_seconds(config.idle_seconds)}"


def _seconds(value: float) -> str:
    if value < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.3g} s" if value < 1000 else f"{value:,.0f} s"
