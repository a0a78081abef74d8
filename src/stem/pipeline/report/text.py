"""The report as text for a terminal."""

from collections.abc import Iterable, Sequence

from stem.pipeline.report import formatting as fmt
from stem.pipeline.report.report import Failure, PipelineReport

_GAP = "  "
_WIDTH, _LEAST = 80, 12  # of a table, and of its first column


def text(report: PipelineReport) -> str:
    of = f" of {report.task}" if report.task else ""
    heading = [f"Report{of}, {fmt.period(report)}", fmt.coverage(report), fmt.comparison(report)]
    parts = ["\n".join(filter(None, heading)), *(f"warning: {gap}" for gap in report.gaps), _overall(report)]
    parts += [_objectives(report)] if report.objectives else []
    parts += [_tasks(report), _failures(report)]
    parts += [_workers(report)] if report.workers else []
    parts += [_queues(report)] if report.queues else []
    return "\n\n".join(parts)


def _overall(report: PipelineReport) -> str:
    now, before = report.now, report.before
    rows = [
        ("attempts", fmt.count(now.attempts), fmt.trend(now.attempts, before.attempts if before else None)),
        ("per minute", fmt.count(fmt.per_minute(now, report)), ""),
        ("enqueued", fmt.count(now.enqueued), fmt.trend(now.enqueued, before.enqueued if before else None)),
        ("success", fmt.share(now.success), fmt.share(before.success) + " before" if before else ""),
        ("retried", fmt.count(now.retried), fmt.trend(now.retried, before.retried if before else None)),
        (
            "dead letters",
            fmt.count(now.dead_lettered),
            fmt.trend(now.dead_lettered, before.dead_lettered if before else None),
        ),
        *(
            (f"{what} {name}", fmt.seconds(getattr(figure, name)), fmt.trend(getattr(figure, name), past))
            for what in ("wait", "run")
            for name in ("p50", "p95", "p99")
            for figure in (getattr(now, what),)
            for past in (getattr(getattr(before, what), name) if before else None,)
        ),
        ("spent in vain", fmt.seconds(now.wasted_seconds), _of(now.wasted_seconds, now.run_seconds)),
    ]
    return _table(("", "now", "trend" if before else ""), rows)


def _objectives(report: PipelineReport) -> str:
    marks = {True: "met", False: "MISSED", None: "nothing measured"}
    rows = [(each.objective, fmt.measured(each), marks[each.is_met]) for each in report.objectives]
    return _table(("objective", "measured", ""), rows)


def _tasks(report: PipelineReport) -> str:
    rows = [
        (
            task.name,
            fmt.count(task.now.attempts),
            fmt.trend(task.now.attempts, task.before.attempts if task.before else None),
            fmt.share(task.now.success),
            fmt.seconds(task.now.wait.p95),
            fmt.seconds(task.now.run.p95),
            fmt.trend(task.now.run.p95, task.before.run.p95 if task.before else None),
            fmt.seconds(task.now.run_seconds),
        )
        for task in report.tasks[:20]
    ]
    return _table(("task", "attempts", "", "success", "wait p95", "run p95", "", "total"), rows)


def _failures(report: PipelineReport) -> str:
    if not report.failures:
        return "No attempt failed."
    return "\n".join(["failures", *(line for each in report.failures for line in _failure(each))])


def _failure(failure: Failure) -> list[str]:
    told = f"{fmt.count(failure.attempts)} attempts, {fmt.count(failure.failed)} for good"
    error = _plain(f"{failure.error_type}: {failure.pattern}")
    lines = [f"{failure.fingerprint}  {told}  {_plain(failure.task)}", f"  {_fit(error, _WIDTH - 2).rstrip()}"]
    return [*lines, f"  {failure.replay}"] if failure.replay else lines


def _workers(report: PipelineReport) -> str:
    rows = [
        (each.name, fmt.count(each.attempts), fmt.seconds(each.busy_seconds), fmt.share(each.utilisation))
        for each in report.workers[:20]
    ]
    return _table(("worker", "attempts", "busy", "utilisation"), rows)


def _queues(report: PipelineReport) -> str:
    rows = [
        (each.name, fmt.count(each.ready_mean), fmt.count(each.ready_most), fmt.count(each.dead))
        for each in report.queues
    ]
    return _table(("queue", "ready, mean", "most", "dead"), rows)


def _of(part: float, whole: float) -> str:
    return f"{fmt.share(part / whole)} of all run time" if whole else ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """At most as wide as a terminal: empty columns are left out, and the first column is cut."""
    cells = [list(columns), *(list(map(_plain, row)) for row in rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(columns))]
    others = sum(width + len(_GAP) for width in widths[1:] if width)
    widths[0] = min(widths[0], max(_LEAST, _WIDTH - others))
    return "\n".join(
        _GAP.join(_fit(cell, width) for cell, width in zip(row, widths, strict=True) if width).rstrip() for row in cells
    )


def _fit(cell: str, width: int) -> str:
    return cell.ljust(width) if len(cell) <= width else f"{cell[: width - 1]}…"


def _plain(text: str) -> str:
    """Replace control characters, which could move the cursor."""
    return "".join(c if c.isprintable() else " " for c in text)
