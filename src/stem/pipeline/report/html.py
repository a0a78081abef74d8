"""The report as one HTML file."""

from datetime import timedelta
from html import escape

from stem.pipeline.html import plots
from stem.pipeline.html.page import page, section, table
from stem.pipeline.html.plots import Axis, Series
from stem.pipeline.report import formatting as fmt
from stem.pipeline.report.report import Failure, PipelineReport

_SHORTEST = timedelta(minutes=10)  # of an axis
_MARKS = {True: ("ok", "met"), False: ("failed", "missed"), None: ("other", "not measured")}


def html(report: PipelineReport) -> str:
    title = f"Stem report · {report.task}" if report.task else "Stem report"
    parts = [
        *(f'<p class="worse">{escape(str(gap))}</p>' for gap in report.gaps),
        _cards(report),
        _objectives(report),
        _throughput(report),
        _latencies(report),
        f'<div class="grid-2">{_failure_bars(report)}{_utilisation(report)}</div>',
        _tasks(report),
        _failures(report),
        _queues(report),
    ]
    heading = f'<p class="quiet">{fmt.period(report)}. {fmt.comparison(report)}</p>{_coverage(report)}'
    made = f"Made {report.made_at:%Y-%m-%d %H:%M} UTC from the lake. Percentiles are within 1 %."
    return page(title, heading, f"{''.join(parts)}<footer>{made}</footer>")


def _coverage(report: PipelineReport) -> str:
    sentence = fmt.coverage(report)
    return f'<p class="notice">{sentence}</p>' if sentence else ""


def _cards(report: PipelineReport) -> str:
    now, before = report.now, report.before
    wasted = now.wasted_seconds / now.run_seconds if now.run_seconds else None
    past_wasted = before.wasted_seconds / before.run_seconds if before and before.run_seconds else None
    cards = [
        _card("Attempts", fmt.count(now.attempts), now.attempts, before.attempts if before else None, is_cost=None),
        _card("Success", fmt.share(now.success), now.success, before.success if before else None, is_cost=False),
        _card("Wait, p95", fmt.seconds(now.wait.p95), now.wait.p95, before.wait.p95 if before else None),
        _card("Run, p95", fmt.seconds(now.run.p95), now.run.p95, before.run.p95 if before else None),
        _card("Run time in vain", fmt.share(wasted), wasted, past_wasted),
        _card(
            "Dead letters", fmt.count(now.dead_lettered), now.dead_lettered, before.dead_lettered if before else None
        ),
    ]
    return f'<div class="cards">{"".join(cards)}</div>'


def _card(name: str, value: str, now: float | None, before: float | None, *, is_cost: bool | None = True) -> str:
    """`is_cost`: less is better; None: neither is."""
    change = fmt.trend(now, before)
    style = ""
    if change and is_cost is not None and change != "±0 %":
        style = " worse" if (change[0] != "−") == is_cost else " better"
    told = f'<div class="trend{style}">{change} vs before</div>' if change else ""
    return f'<div class="card"><div class="name">{name}</div><div class="value">{escape(value)}</div>{told}</div>'


def _throughput(report: PipelineReport) -> str:
    axis = _axis(report)
    minutes = [axis.seconds(slot.at) / 60 for slot in report.slots]  # the first and the last stretch are cut off
    series = [
        Series(name, style, [getattr(slot, field) / each for slot, each in zip(report.slots, minutes, strict=True)])
        for name, style, field in (
            ("succeeded", "ok", "succeeded"),
            ("retried", "retried", "retried"),
            ("failed", "failed", "failed"),
            ("cancelled, lost, interrupted", "other", "other"),
        )
    ]
    plot = plots.stacked(axis, series, label=fmt.count)
    return section("Attempts per minute, by how they ended", plots.legend(series) + plot)


def _latencies(report: PipelineReport) -> str:
    def plot(what: str, title: str) -> str:
        series = [
            Series("p95", what, [getattr(slot, f"{what}_p95") for slot in report.slots]),
            Series("p50", f"{what}-soft", [getattr(slot, f"{what}_p50") for slot in report.slots]),
        ]
        return section(
            title, plots.legend(series) + plots.lines(_axis(report), series, label=fmt.seconds, unit=fmt.unit)
        )

    return f'<div class="grid-2">{plot("wait", "Wait before the first attempt")}{plot("run", "Run time")}</div>'


def _failure_bars(report: PipelineReport) -> str:
    if not report.failures:
        return section("Failures", '<p class="quiet">No attempt failed.</p>')
    rows = [
        (f"{each.task} · {each.error_type}: {each.pattern}", each.attempts, fmt.count(each.attempts), "failed")
        for each in report.failures[:8]
    ]
    return section("Failed attempts, by error", plots.bars(rows))


def _utilisation(report: PipelineReport) -> str:
    if not report.workers:
        return section("Workers", '<p class="quiet">No worker ran anything.</p>')
    known = any(each.utilisation is not None for each in report.workers)
    rows = [
        (
            each.name,
            (each.utilisation or 0) if known else each.busy_seconds,
            fmt.share(each.utilisation) if known else fmt.seconds(each.busy_seconds),
            "wait",
        )
        for each in report.workers[:8]
    ]
    title = "Utilisation of workers" if known else "Busy time of workers"
    return section(title, plots.bars(rows, most=1.0 if known else None))


def _tasks(report: PipelineReport) -> str:
    rows = [
        [
            f"<code>{escape(task.name)}</code>",
            fmt.count(task.now.attempts),
            _trend(task.now.attempts, task.before.attempts if task.before else None, is_cost=None),
            fmt.share(task.now.success),
            fmt.seconds(task.now.wait.p95),
            fmt.seconds(task.now.run.p50),
            fmt.seconds(task.now.run.p95),
            fmt.seconds(task.now.run.p99),
            _trend(task.now.run.p95, task.before.run.p95 if task.before else None, is_cost=True),
            fmt.seconds(task.now.run_seconds),
            fmt.seconds(task.now.wasted_seconds),
        ]
        for task in report.tasks[:30]
    ]
    columns = ("task", "attempts", "", "success", "wait p95", "run p50", "run p95", "run p99", "", "total", "in vain")
    return section("Tasks, by the time that they took", table(columns, rows))


def _failures(report: PipelineReport) -> str:
    if not report.failures:
        return ""
    return section("Failures, by fingerprint", "".join(map(_failure, report.failures)))


def _failure(failure: Failure) -> str:
    """A list and no table: messages and commands are long, and a phone is narrow."""
    facts = (
        f"{fmt.count(failure.attempts)} attempts, {fmt.count(failure.failed)} for good",
        f"{failure.first_at:%d %b %H:%M} to {failure.last_at:%d %b %H:%M}",
        f"like task <code>{escape(failure.sample_id)}</code>",
    )
    command = f"<pre>{escape(failure.replay)}</pre>" if failure.replay else ""
    return (
        f'<article><div class="title"><strong>{escape(failure.error_type)}</strong> in <code>{escape(failure.task)}</code>'
        f'<code class="quiet">{failure.fingerprint}</code></div><p class="message">{escape(failure.message)}</p>'
        f'<p class="small">{" · ".join(facts)}</p>{command}</article>'
    )


def _queues(report: PipelineReport) -> str:
    if not report.queues:
        return ""
    rows = [
        [escape(each.name), fmt.count(each.ready_mean), fmt.count(each.ready_most), fmt.count(each.dead)]
        for each in report.queues
    ]
    return section("Queues", table(("queue", "ready, mean", "ready, most", "dead letters"), rows))


def _objectives(report: PipelineReport) -> str:
    if not report.objectives:
        return ""
    rows = []
    for each in report.objectives:
        style, word = _MARKS[each.is_met]
        mark = f'<span class="pill {style}">{word}</span>'
        rows.append([f"<code>{escape(each.objective)}</code>", fmt.measured(each), mark])
    return section("Objectives", table(("objective", "measured", ""), rows))


def _trend(now: float | None, before: float | None, *, is_cost: bool | None) -> str:
    change = fmt.trend(now, before)
    if not change or is_cost is None or change == "±0 %":
        return f'<span class="small">{change}</span>'
    return f'<span class="small {"worse" if (change[0] != "−") == is_cost else "better"}">{change}</span>'


def _axis(report: PipelineReport) -> Axis:
    """As long as the data is, but never so short that one bar fills the plot."""
    missing = max(timedelta(), _SHORTEST - (report.data_until - report.data_since))
    since, until = report.data_since - missing / 2, report.data_until + missing / 2
    return Axis([slot.at for slot in report.slots], report.slot_seconds, since, until)
