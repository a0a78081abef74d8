"""The report as text for a terminal."""

from collections.abc import Iterable, Sequence

from stem.pipeline import report_words as words
from stem.pipeline.report import Failure, Report

_GAP = "  "
_WIDTH, _LEAST = 80, 12  # of a table, and of the column that gives way


def text(report: Report) -> str:
    of = f" of {report.task}" if report.task else ""
    heading = [f"Report{of}, {words.period(report)}", words.coverage(report), words.comparison(report)]
    parts = ["\n".join(filter(None, heading)), *(f"warning: {gap}" for gap in report.gaps), _overall(report)]
    parts += [_objectives(report)] if report.objectives else []
    parts += [_tasks(report), _failures(report)]
    parts += [_workers(report)] if report.workers else []
    parts += [_queues(report)] if report.queues else []
    return "\n\n".join(parts)


def _overall(report: Report) -> str:
    now, before = report.now, report.before
    rows = [
        ("attempts", words.count(now.attempts), words.trend(now.attempts, before.attempts if before else None)),
        ("per minute", words.count(words.per_minute(now, report)), ""),
        ("enqueued", words.count(now.enqueued), words.trend(now.enqueued, before.enqueued if before else None)),
        ("success", words.share(now.success), words.share(before.success) + " before" if before else ""),
        ("retried", words.count(now.retried), words.trend(now.retried, before.retried if before else None)),
        (
            "dead letters",
            words.count(now.dead_lettered),
            words.trend(now.dead_lettered, before.dead_lettered if before else None),
        ),
        *(
            (f"{what} {name}", words.seconds(getattr(figure, name)), words.trend(getattr(figure, name), past))
            for what in ("wait", "run")
            for name in ("p50", "p95", "p99")
            for figure in (getattr(now, what),)
            for past in (getattr(getattr(before, what), name) if before else None,)
        ),
        ("spent in vain", words.seconds(now.wasted_seconds), _of(now.wasted_seconds, now.run_seconds)),
    ]
    return _table(("", "now", "trend" if before else ""), rows)


def _objectives(report: Report) -> str:
    marks = {True: "met", False: "MISSED", None: "nothing measured"}
    rows = [(each.objective, words.measured(each), marks[each.is_met]) for each in report.objectives]
    return _table(("objective", "measured", ""), rows)


def _tasks(report: Report) -> str:
    rows = [
        (
            task.name,
            words.count(task.now.attempts),
            words.trend(task.now.attempts, task.before.attempts if task.before else None),
            words.share(task.now.success),
            words.seconds(task.now.wait.p95),
            words.seconds(task.now.run.p95),
            words.trend(task.now.run.p95, task.before.run.p95 if task.before else None),
            words.seconds(task.now.run_seconds),
        )
        for task in report.tasks[:20]
    ]
    return _table(("task", "attempts", "", "success", "wait p95", "run p95", "", "total"), rows)


def _failures(report: Report) -> str:
    if not report.failures:
        return "No attempt failed."
    return "\n".join(["failures", *(line for each in report.failures for line in _failure(each))])


def _failure(failure: Failure) -> list[str]:
    told = f"{words.count(failure.attempts)} attempts, {words.count(failure.failed)} for good"
    error = _plain(f"{failure.error_type}: {failure.pattern}")
    lines = [f"{failure.fingerprint}  {told}  {_plain(failure.task)}", f"  {_fit(error, _WIDTH - 2).rstrip()}"]
    return [*lines, f"  {failure.replay}"] if failure.replay else lines


def _workers(report: Report) -> str:
    rows = [
        (each.name, words.count(each.attempts), words.seconds(each.busy_seconds), words.share(each.utilisation))
        for each in report.workers[:20]
    ]
    return _table(("worker", "attempts", "busy", "utilisation"), rows)


def _queues(report: Report) -> str:
    rows = [
        (each.name, words.count(each.ready_mean), words.count(each.ready_most), words.count(each.dead))
        for each in report.queues
    ]
    return _table(("queue", "ready, mean", "most", "dead"), rows)


def _of(part: float, whole: float) -> str:
    return f"{words.share(part / whole)} of all run time" if whole else ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """At most as wide as a terminal: a column in which nothing stands is left out, and the first one gives way."""
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
    """Nothing that a task's error says can move the cursor."""
    return "".join(c if c.isprintable() else " " for c in text)
