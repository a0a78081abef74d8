"""Draw plots for a page of any width: shapes are SVG stretched to fit, labels are HTML text of the page's own size."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape

WIDTH = 1000  # in units of the SVG; the page stretches it
_GAP = 0.12  # between two bars, as a share of a slot
_LEAST = 0.001  # the smallest value on a logarithmic scale
_STEPS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000)
# Round maxima of an axis, each with a number of parts that are round as well.
_TOPS = ((1, 5), (2, 4), (4, 4), (5, 5), (6, 3), (8, 4), (10, 5))


@dataclass(frozen=True, slots=True)
class Series:
    """`style` is a class of page.css."""

    name: str
    style: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Axis:
    """Time from left to right, in slots: when each starts, and how long it is."""

    starts: Sequence[datetime]
    step_seconds: int
    since: datetime
    until: datetime

    def share(self, moment: datetime) -> float:
        """The position between left (0) and right (1)."""
        return (moment - self.since) / max(timedelta(seconds=1), self.until - self.since)

    def x(self, moment: datetime) -> float:
        return self.share(moment) * WIDTH

    def ends(self, start: datetime) -> tuple[datetime, datetime]:
        """Start and end of a slot, within the period."""
        end = start + timedelta(seconds=self.step_seconds)
        return max(start, self.since), min(end, self.until)

    def seconds(self, start: datetime) -> float:
        left, right = self.ends(start)
        return max(60.0, (right - left).total_seconds())


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from the bottom to the top of a plot."""

    top: float
    parts: int
    height: int

    def y(self, value: float) -> float:
        return (1 - value / self.top) * self.height


def stacked(axis: Axis, series: Sequence[Series], *, label: Callable[[float], str], height: int = 220) -> str:
    """Stacked bars, one per slot."""
    totals = [sum(each.values[place] or 0 for each in series) for place in range(len(axis.starts))]
    scale = _scale(max(totals, default=0), height)
    marks = []
    for place, start in enumerate(axis.starts):
        left, right = map(axis.x, axis.ends(start))
        base = 0.0
        for each in series:
            value = each.values[place] or 0
            if value:
                y = scale.y(base + value)
                marks.append(
                    f'<rect class="{each.style}" x="{left + (right - left) * _GAP / 2:.2f}" y="{y:.2f}" '
                    f'width="{(right - left) * (1 - _GAP):.2f}" height="{scale.y(base) - y:.2f}"/>'
                )
            base += value
    return _plot(axis, scale, series, marks, label=label, beside=label, ticks=8)


def lines(
    axis: Axis,
    series: Sequence[Series],
    *,
    label: Callable[[float], str],
    unit: Callable[[float], tuple[float, str]],
    height: int = 180,
) -> str:
    """One line per series, broken where there is no value. `unit` gives size and name of the axis's unit for a maximum."""
    most = max((value for each in series for value in each.values if value is not None), default=0)
    size, name = unit(most)
    scale = _scale(most, height, size)
    marks = []
    for each in series:
        marks += [f'<polyline class="{each.style}" points="{run}"/>' for run in _unbroken(axis, each, scale)]
        marks += [
            f'<path class="{each.style}" d="M{_middle(axis, start):.2f} {scale.y(value):.2f}h0.01"/>'
            for start, value in zip(axis.starts, each.values, strict=True)
            if value is not None
        ]
    beside = lambda value: f"{round(value / size, 6):g} {name}"  # noqa: E731
    return _plot(axis, scale, series, marks, label=label, beside=beside, ticks=5)


def bars(rows: Sequence[tuple[str, float, str, str]], *, most: float | None = None) -> str:
    """Horizontal bars: name, value, the text beside it, and the style. `most` is the value of a full bar."""
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


@dataclass(frozen=True, slots=True)
class Dot:
    x: float
    y: float
    style: str
    title: str


def scatter(
    dots: Sequence[Dot],
    *,
    line: Sequence[tuple[float, float]],
    label: str,
    y_label: Callable[[float], str],
    height: int = 400,
) -> str:
    """Dots, the line through some of them, and a label at the last dot. The y axis is logarithmic."""
    least, most = min(dot.x for dot in dots), max(dot.x for dot in dots)
    bottom, top = _power(min(dot.y for dot in dots)), _power(max(dot.y for dot in dots)) + 1

    def share(x: float) -> float:
        return 0.02 + 0.96 * (x - least) / max(most - least, 1e-9)

    def y(value: float) -> float:
        return (1 - (math.log10(max(value, _LEAST)) - bottom) / (top - bottom)) * height

    points = " ".join(f"{share(x) * WIDTH:.2f},{y(value):.2f}" for x, value in line)
    marks = [f'<polyline class="wait-soft" points="{points}"/>']
    marks += [
        f'<path class="{dot.style}" d="M{share(dot.x) * WIDTH:.2f} {y(dot.y):.2f}h0.01"><title>{escape(dot.title)}</title></path>'
        for dot in dots
    ]
    left = [(y(10.0**power), y_label(10.0**power)) for power in range(bottom, top + 1)]
    below = [(share(value), f"{value:.6g}", False) for value in round_ticks(least, most)]
    side = "right" if share(dots[-1].x) > 0.7 else "left"
    away = share(dots[-1].x) if side == "left" else 1 - share(dots[-1].x)
    place = f"{side}:calc({away * 100:.2f}% + 12px);top:{y(dots[-1].y) - 18:.1f}px"
    return _frame(height, left, below, marks, f'<span class="label" style="{place}">{escape(label)}</span>')


def round_ticks(least: float, most: float, at_most: int = 6) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, between the two."""
    if most - least < 1e-6:
        return [least]
    rough = (most - least) / at_most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough)
    return [round(step * n, 12) for n in range(math.ceil(least / step), math.floor(most / step) + 1)] or [least]


def _power(value: float) -> int:
    """The power of ten at or below the value."""
    return math.floor(math.log10(max(value, _LEAST)))


def _plot(
    axis: Axis,
    scale: Scale,
    series: Sequence[Series],
    marks: list[str],
    *,
    label: Callable[[float], str],
    beside: Callable[[float], str],
    ticks: int,
) -> str:
    """`beside` writes the values of the axis, `label` those of the marks."""
    values = [scale.top * part / scale.parts for part in range(scale.parts + 1)]
    left = [(scale.y(value), beside(value)) for value in values]
    below = [
        (axis.share(moment), _when(axis, moment), bool(place % 2 and ticks > 5))
        for place, moment in enumerate(_ticks(axis, ticks))
    ]
    return _frame(scale.height, left, below, [*marks, *_hints(axis, series, scale.height, label)])


def _frame(
    height: int,
    left: Sequence[tuple[float, str]],
    below: Sequence[tuple[float, str, bool]],
    marks: Sequence[str],
    over: str = "",
) -> str:
    """Marks within grid lines and labels: `left` as (y, text), `below` as (share, text, hidden on a narrow page)."""
    grid = [f'<line class="grid" x1="0" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>' for y, _ in left]
    beside = [f'<span style="top:{y:.1f}px">{escape(text)}</span>' for y, text in left]
    under = [
        f'<span{" class=minor" if is_minor else ""} style="left:{share * 100:.2f}%">{escape(text)}</span>'
        for share, text, is_minor in below
    ]
    return (
        f'<div class="plot"><div class="y" style="height:{height}px">{"".join(beside)}</div><div class="area">'
        f'<svg viewBox="0 0 {WIDTH} {height}" style="height:{height}px" preserveAspectRatio="none" role="img">'
        f'{"".join([*grid, *marks])}</svg>{over}<div class="x">{"".join(under)}</div></div></div>'
    )


def _hints(axis: Axis, series: Sequence[Series], height: int, label: Callable[[float], str]) -> list[str]:
    """The tooltip of each slot."""
    hints = []
    for place, start in enumerate(axis.starts):
        left, right = axis.ends(start)
        values = [f"{s.name}: {label(value)}" for s in series if (value := s.values[place]) is not None]
        title = escape("\n".join([f"{left:%a %d %b %H:%M} to {right:%H:%M}", *values]))
        hints.append(
            f'<rect class="hint" x="{axis.x(left):.2f}" y="0" width="{axis.x(right) - axis.x(left):.2f}" height="{height}">'
            f"<title>{title}</title></rect>"
        )
    return hints


def _ticks(axis: Axis, most: int) -> list[datetime]:
    """Whole minutes, hours or days; none so near an end that its label would not fit."""
    seconds = (axis.until - axis.since).total_seconds()
    step = next((each for each in _STEPS if seconds / each <= most), max(60, int(seconds / most)))
    first = math.ceil(axis.since.timestamp() / step) * step
    moments = range(int(first), int(axis.until.timestamp()) + 1, step)
    inside = (datetime.fromtimestamp(each, axis.since.tzinfo) for each in moments)
    return [each for each in inside if 0.02 < axis.share(each) < 0.98]


def _when(axis: Axis, moment: datetime) -> str:
    if (axis.until - axis.since).total_seconds() > 2.5 * 86400:
        return f"{moment:%d %b}"
    return f"{moment:%a %d}" if (moment.hour, moment.minute) == (0, 0) else f"{moment:%H:%M}"


def _middle(axis: Axis, start: datetime) -> float:
    left, right = axis.ends(start)
    return (axis.x(left) + axis.x(right)) / 2


def _unbroken(axis: Axis, series: Series, scale: Scale) -> list[str]:
    runs: list[list[tuple[datetime, float]]] = [[]]
    for start, value in zip(axis.starts, series.values, strict=True):
        is_apart = runs[-1] and (start - runs[-1][-1][0]).total_seconds() > axis.step_seconds * 1.5
        if value is None or is_apart:
            runs.append([])
        if value is not None:
            runs[-1].append((start, scale.y(value)))
    return [_points(axis, run) for run in runs if run]


def _points(axis: Axis, run: list[tuple[datetime, float]]) -> str:
    """A single value becomes a line as long as its slot, because a line needs two points."""
    if len(run) == 1:
        ((start, y),) = run
        return " ".join(f"{axis.x(moment):.2f},{y:.2f}" for moment in axis.ends(start))
    return " ".join(f"{_middle(axis, start):.2f},{y:.2f}" for start, y in run)


def _scale(most: float, height: int, unit: float = 1.0) -> Scale:
    """Up to the next round number."""
    if most <= 0:
        return Scale(1.0, 1, height)
    power = 10 ** math.floor(math.log10(most / unit)) * unit
    top, parts = next((power * top, parts) for top, parts in _TOPS if most <= power * top * 1.0000001)
    return Scale(top, parts, height)
