"""The report as text for a terminal."""

from collections.abc import Iterable, Sequence

from stem.pipeline import report_words as words
from stem.pipeline.report import Report

_GAP = "  "


def text(report: Report) -> str:
    of = f" of {report.task}" if report.task else ""
    parts = [f"Report{of}, {words.period(report)}", *(f"warning: {gap}" for gap in report.gaps), _overall(report)]
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
    return _table(("", "now", "trend"), rows)


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
            words.seconds(task.now.run.p50),
            words.seconds(task.now.run.p95),
            words.trend(task.now.run.p95, task.before.run.p95 if task.before else None),
            words.seconds(task.now.run_seconds),
        )
        for task in report.tasks[:20]
    ]
    return _table(("task", "attempts", "", "success", "wait p95", "run p50", "run p95", "", "total"), rows)


def _failures(report: Report) -> str:
    if not report.failures:
        return "No attempt failed."
    rows = [
        (
            each.fingerprint,
            each.task,
            words.count(each.attempts),
            words.count(each.failed),
            f"{each.error_type}: {each.pattern}"[:90],
        )
        for each in report.failures
    ]
    return _table(("failures", "task", "attempts", "for good", "error"), rows)


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
    cells = [list(columns), *(list(map(_plain, row)) for row in rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(columns))]
    return "\n".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def _plain(text: str) -> str:
    """Nothing that a task's error says can move the cursor."""
    return "".join(c if c.isprintable() else " " for c in text)
