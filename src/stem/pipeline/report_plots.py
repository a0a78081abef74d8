"""Plots as SVG: text only, coloured by the page's own style, with the figure of each mark on hover."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 1040, 64, 8, 10, 26


@dataclass(frozen=True, slots=True)
class Series:
    """`style` is a class of the page's."""

    name: str
    style: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Axis:
    """Moments from left to right: where each stretch begins, and how long it is."""

    starts: Sequence[datetime]
    step_seconds: int
    since: datetime
    until: datetime

    def x(self, moment: datetime, width: int) -> float:
        whole = max(1.0, (self.until - self.since).total_seconds())
        return LEFT + (moment - self.since).total_seconds() / whole * (width - LEFT - RIGHT)

    def ends(self, start: datetime) -> tuple[datetime, datetime]:
        """Of a stretch, within the period."""
        end = start + timedelta(seconds=self.step_seconds)
        return max(start, self.since), min(end, self.until)

    def seconds(self, start: datetime) -> float:
        left, right = self.ends(start)
        return max(60.0, (right - left).total_seconds())


def stacked(axis: Axis, series: Sequence[Series], *, label: Callable[[float], str], height: int = 240) -> str:
    """Bars of the series on top of each other, a bar a stretch."""
    totals = [sum(each.values[place] or 0 for each in series) for place in range(len(axis.starts))]
    top = _ceiling(max(totals, default=0))
    marks = [_grid(axis, top, label, WIDTH, height)]
    for place, start in enumerate(axis.starts):
        left, right = (axis.x(moment, WIDTH) for moment in axis.ends(start))
        base = 0.0
        title = f"{start:%a %H:%M}" + "".join(f"\n{s.name}: {label(s.values[place] or 0)}" for s in series)
        for each in series:
            value = each.values[place] or 0
            if value:
                y = _y(base + value, top, height)
                marks.append(
                    f'<rect class="{each.style}" x="{left + 0.5:.1f}" y="{y:.1f}" width="{max(1.0, right - left - 1):.1f}" '
                    f'height="{_y(base, top, height) - y:.1f}"><title>{escape(title)}</title></rect>'
                )
            base += value
    return _svg(WIDTH, height, marks)


def lines(axis: Axis, series: Sequence[Series], *, label: Callable[[float], str], width: int = 510) -> str:
    """A line a series; it is broken where there is no value."""
    height = 200
    top = _ceiling(max((value for each in series for value in each.values if value is not None), default=0))
    marks = [_grid(axis, top, label, width, height)]
    for each in series:
        marks += [
            f'<polyline class="{each.style}" points="{" ".join(run)}"/>'
            for run in _unbroken(axis, each, top, width, height)
        ]
        for start, value in zip(axis.starts, each.values, strict=True):
            if value is not None:
                x = _middle(axis, start, width)
                marks.append(
                    f'<circle class="{each.style}" cx="{x:.1f}" cy="{_y(value, top, height):.1f}" r="2.5">'
                    f"<title>{start:%a %H:%M}\n{escape(each.name)}: {escape(label(value))}</title></circle>"
                )
    return _svg(width, height, marks)


def bars(rows: Sequence[tuple[str, float, str, str]], *, most: float | None = None) -> str:
    """Lying bars: name, value, what to write beside it, and the style; `most` is the whole length."""
    whole = most or max((value for _, value, _, _ in rows), default=0) or 1
    parts = [
        f'<div class="bar"><span class="bar-name" title="{escape(name)}">{escape(name)}</span><span class="bar-track">'
        f'<span class="bar-fill {style}" style="width:{min(1.0, value / whole) * 100:.1f}%"></span></span>'
        f'<span class="bar-value">{escape(beside)}</span></div>'
        for name, value, beside, style in rows
    ]
    return f'<div class="bars">{"".join(parts)}</div>'


def legend(series: Sequence[Series]) -> str:
    items = "".join(f'<span><i class="{each.style}"></i>{escape(each.name)}</span>' for each in series)
    return f'<p class="legend">{items}</p>'


def _svg(width: int, height: int, marks: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img">{"".join(marks)}</svg>'


def _grid(axis: Axis, top: float, label: Callable[[float], str], width: int, height: int) -> str:
    parts = []
    for part in range(5):
        value = top * part / 4
        y = _y(value, top, height)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(label(value))}</text>'
        )
    for moment in _ticks(axis, 9 if width > 600 else 5):
        x = axis.x(moment, width)
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{height - 6}" text-anchor="middle">{_when(axis, moment)}</text>'
        )
    return "".join(parts)


def _ticks(axis: Axis, most: int) -> list[datetime]:
    """Whole hours or days where there are some."""
    seconds = (axis.until - axis.since).total_seconds()
    steps = (60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000)
    step = next((each for each in steps if seconds / each <= most), int(seconds / most))
    first = math.ceil(axis.since.timestamp() / step) * step
    zone = axis.since.tzinfo
    moments = range(int(first), int(axis.until.timestamp()) + 1, step)
    inside = (datetime.fromtimestamp(each, zone) for each in moments)
    return [each for each in inside if 0.02 < (each - axis.since).total_seconds() / max(1.0, seconds) < 0.98]


def _when(axis: Axis, moment: datetime) -> str:
    if (axis.until - axis.since).total_seconds() > 2.5 * 86400:
        return f"{moment:%d %b}"
    return f"{moment:%a %d}" if (moment.hour, moment.minute) == (0, 0) else f"{moment:%H:%M}"


def _middle(axis: Axis, start: datetime, width: int) -> float:
    left, right = axis.ends(start)
    return (axis.x(left, width) + axis.x(right, width)) / 2


def _unbroken(axis: Axis, series: Series, top: float, width: int, height: int) -> list[list[str]]:
    runs: list[list[str]] = [[]]
    last: datetime | None = None
    for start, value in zip(axis.starts, series.values, strict=True):
        if value is None or (last is not None and (start - last).total_seconds() > axis.step_seconds * 1.5):
            runs.append([])
        if value is not None:
            runs[-1].append(f"{_middle(axis, start, width):.1f},{_y(value, top, height):.1f}")
            last = start
    return [run for run in runs if len(run) > 1]


def _y(value: float, top: float, height: int) -> float:
    return TOP + (1 - value / top) * (height - TOP - BOTTOM)


def _ceiling(value: float) -> float:
    """The next round number, so that the quarters of the axis are round too."""
    if value <= 0:
        return 1.0
    power = 10 ** math.floor(math.log10(value))
    return float(next(power * each for each in (1, 2, 4, 6, 8, 10) if value <= power * each * 1.0000001))
