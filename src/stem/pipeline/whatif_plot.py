"""The plot of a what-if: cost against wait, as one page that needs nothing else."""

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10

from stem.pipeline.whatif_grid import Point, front

WIDTH, HEIGHT = 880, 480
LEFT, RIGHT, TOP, BOTTOM = 72, 24, 20, 52

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Stem: what if the worker scaled otherwise</title>
<style>
:root {{ color-scheme: light dark; --ink: #1d2530; --soft: #6b7684; --line: #d9dee5; --page: #fbfcfd; --dot: #b4bdc9;
        --front: #2563c9; --pick: #d9480f; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e6eaf0; --soft: #94a0b0; --line: #303843; --page: #14181e;
        --dot: #4c5765; --front: #6ea8fe; --pick: #ff8a4c; }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 2.5rem auto;
       max-width: 880px; padding: 0 1rem; }}
h1 {{ font-size: 1.4rem; margin: 0 0 .25rem; }} p {{ color: var(--soft); margin: 0 0 1.5rem; }}
.scroll {{ overflow-x: auto; }} svg {{ width: 100%; min-width: 640px; height: auto; }}
text {{ font: 12px system-ui, sans-serif; fill: var(--soft); }}
.grid {{ stroke: var(--line); }} .dot {{ fill: var(--dot); opacity: .7; }} .front {{ fill: var(--front); }}
.path {{ fill: none; stroke: var(--front); stroke-width: 1.5; opacity: .6; }}
.pick {{ fill: none; stroke: var(--pick); stroke-width: 3; }} .label {{ fill: var(--pick); font-weight: 600; }}
table {{ border-collapse: collapse; width: 100%; margin: 1.5rem 0; font-variant-numeric: tabular-nums; }}
th, td {{ text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }}
th {{ color: var(--soft); font-weight: 500; }} tr.chosen td {{ color: var(--pick); font-weight: 600; }}
pre {{ border: 1px solid var(--line); border-radius: 6px; padding: 1rem; overflow-x: auto; }}
</style>
<h1>What if the worker scaled otherwise?</h1>
<p>{subtitle}</p>
{svg}
{table}
<pre>{yaml}</pre>
</html>
"""


def page(points: Sequence[Point], pick: Point, *, subtitle: str, yaml: str) -> str:
    line = front(points)
    return _PAGE.format(
        subtitle=escape(subtitle), svg=_svg(points, line, pick), table=_table(line, pick), yaml=escape(yaml)
    )


class _Scale:
    """Values to places on the page; waits by their logarithm, for they range widely."""

    def __init__(self, points: Sequence[Point]) -> None:
        hours = [point.told.isolate_hours for point in points]
        waits = [_lifted(point.told.p95_wait) for point in points]
        self._least, self._most = min(hours), max(max(hours), min(hours) + 1e-9)
        self.bottom, self.top = _floor(min(waits)), _floor(max(waits)) + 1

    def x(self, hours: float) -> float:
        share = (hours - self._least) / (self._most - self._least)
        return LEFT + 12 + share * (WIDTH - LEFT - RIGHT - 24)

    def y(self, wait: float) -> float:
        share = (log10(_lifted(wait)) - self.bottom) / (self.top - self.bottom)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def hours(self) -> list[float]:
        return round_ticks(self._least, self._most)


def round_ticks(least: float, most: float, at_most: int = 6) -> list[float]:
    """Multiples of 1, 2 or 5 and a power of ten, between the two."""
    if most - least < 1e-6:
        return [least]
    rough = (most - least) / at_most
    power = 10.0 ** _floor(rough)
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough)
    return [round(step * number, 12) for number in range(ceil(least / step), floor(most / step) + 1)] or [least]


def _svg(points: Sequence[Point], line: Sequence[Point], pick: Point) -> str:
    scale = _Scale(points)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="isolate-hours against p95 wait">']
    for power in range(scale.bottom, scale.top + 1):
        y = scale.y(10.0**power)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_seconds(10.0**power)}</text>')
    for hours in scale.hours():
        x = scale.x(hours)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{hours:.6g}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 10}" text-anchor="middle">isolate-hours</text>')
    parts.append(f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">p95 wait</text>')
    parts += [_dot(scale, point, "dot", 3) for point in points]
    places = " ".join(f"{scale.x(p.told.isolate_hours):.1f},{scale.y(p.told.p95_wait):.1f}" for p in line)
    parts.append(f'<polyline class="path" points="{places}"/>')
    parts += [_dot(scale, point, "front", 4) for point in line]
    x, y = scale.x(pick.told.isolate_hours), scale.y(pick.told.p95_wait)
    parts.append(_dot(scale, pick, "pick", 8))
    anchor = "end" if x > WIDTH * 0.7 else "start"
    shift = -14 if anchor == "end" else 14
    parts.append(
        f'<text class="label" x="{x + shift:.1f}" y="{y - 10:.1f}" text-anchor="{anchor}">{_name(pick)}</text>'
    )
    return "\n".join(['<div class="scroll">', *parts, "</svg></div>"])


def _dot(scale: _Scale, point: Point, kind: str, radius: int) -> str:
    told = point.told
    title = f"{_name(point)}: p95 wait {_seconds(told.p95_wait)}, {told.isolate_hours:.3g} isolate-hours"
    x, y = scale.x(told.isolate_hours), scale.y(told.p95_wait)
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"><title>{escape(title)}</title></circle>'


def _table(line: Sequence[Point], pick: Point) -> str:
    heads = ("min", "max", "idle", "step", "p50 wait", "p95 wait", "p99 wait", "isolate-hours", "moves")
    rows = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    for point in line if pick in line else [*line, pick]:
        config, told = point.config, point.told
        cells = (
            config.minimum,
            config.maximum,
            _seconds(config.idle_seconds),
            config.scale_up_step,
            _seconds(told.p50_wait),
            _seconds(told.p95_wait),
            _seconds(told.p99_wait),
            f"{told.isolate_hours:.3g}",
            told.moves,
        )
        kind = ' class="chosen"' if point == pick else ""
        rows.append(f"<tr{kind}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return '<div class="scroll"><table>' + "\n".join(rows) + "</table></div>"


def _name(point: Point) -> str:
    config = point.config
    return f"{config.minimum} to {config.maximum}, idle {_seconds(config.idle_seconds)}"


def _seconds(value: float) -> str:
    if value < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.3g} s" if value < 1000 else f"{value:,.0f} s"


def _lifted(wait: float) -> float:
    return max(wait, 0.001)


def _floor(value: float) -> int:
    return floor(log10(value))
