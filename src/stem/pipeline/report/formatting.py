"""Format figures for people."""

from datetime import timedelta

from stem.pipeline.report.report import Figures, PipelineReport
from stem.pipeline.report.slo import Attainment


def seconds(value: float | None) -> str:
    """A duration with about two digits."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if value < 1:
        return f"{value * 1000:.0f} ms" if value >= 0.0095 else f"{value * 1000:.1f} ms"
    if value < 120:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    if value < 7200:
        return f"{value / 60:.0f} min"
    return f"{value / 3600:.1f} h" if value < 172800 else f"{value / 86400:.1f} d"


def count(value: float) -> str:
    if value < 10_000:
        return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.1f}"
    return f"{value / 1000:,.1f} k" if value < 1_000_000 else f"{value / 1_000_000:,.2f} M"


def share(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value * 100:.2f} %" if 0.99 < value < 1 else f"{value * 100:.1f} %"


def trend(now: float | None, before: float | None) -> str:
    """The change from the period before; empty if there is nothing to compare."""
    if now is None or not before:
        return ""
    change = now / before - 1
    if abs(change) < 0.005:
        return "±0 %"
    return f"{'+' if change > 0 else '−'}{abs(change) * 100:,.0f} %" if abs(change) < 10 else f"×{now / before:,.0f}"


def measured(objective: Attainment) -> str:
    return (share if "success" in objective.objective else seconds)(objective.measured)


def period(report: PipelineReport) -> str:
    day = report.since.date() == report.until.date()
    end = f"{report.until:%H:%M}" if day else f"{report.until:%Y-%m-%d %H:%M}"
    return f"{report.since:%Y-%m-%d %H:%M} to {end} UTC"


def coverage(report: PipelineReport) -> str:
    """A sentence on how much of the period the lake has; empty if it has nearly all."""
    wanted, there = report.until - report.since, report.data_until - report.data_since
    if there >= wanted * 0.95:
        return ""
    when = f"from {report.data_since:%Y-%m-%d %H:%M} to {report.data_until:%H:%M}"
    if report.data_since.date() != report.data_until.date():
        when = f"from {report.data_since:%Y-%m-%d %H:%M} to {report.data_until:%Y-%m-%d %H:%M}"
    return f"The lake has {span(there)} of these {span(wanted)}: {when}."


def comparison(report: PipelineReport) -> str:
    asked = span(report.until - report.since)
    return f"Compared with the {asked} before." if report.before else f"No data of the {asked} before to compare with."


def span(length: timedelta) -> str:
    minutes = max(1, round(length.total_seconds() / 60))
    size, name = next(each for each in ((1440, "day"), (60, "hour"), (1, "minute")) if minutes >= each[0] * 0.95)
    count = round(minutes / size, 1)
    return f"{count:g} {name}{'s' if count != 1 else ''}"


def per_minute(figures: Figures, report: PipelineReport) -> float:
    """Attempts per minute of the time that the lake has."""
    return figures.attempts / max(1.0, (report.data_until - report.data_since).total_seconds() / 60)


def unit(most: float) -> tuple[float, str]:
    """The unit for an axis with this maximum: its seconds, and its name."""
    for size, name in ((0.001, "ms"), (1.0, "s"), (60.0, "min")):
        if most <= 100 * size or (name == "ms" and most < 1):
            return size, name
    return 3600.0, "h"
