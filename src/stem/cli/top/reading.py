"""What `stem top` shows, read from the store at one moment. Knows nothing of screens."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from stem.cli.support import printing, times
from stem.client.app import Stem
from stem.contracts.steering.revokes import Revokes
from stem.contracts.task_logs import LogLine
from stem.control.dead_letters import replay_letters
from stem.core.delivery import DeadFilter
from stem.core.lifecycle import State
from stem.core.record import TaskFilter, TaskRecord
from stem.core.settings.kinds import span
from stem.observe.overview import Overview, overview
from stem.observe.queues import QueueView
from stem.observe.task import TaskView, Timeline, task, timeline
from stem.observe.workers import WorkerSummary

RATE_SECONDS = 900
TASKS = 50
FAILURES = 20
LINES = 200

QUEUES = ("queue", "ready", "delayed", "running", "dead", "workers", "/min", "p95", "wait", "remark")
WORKERS = ("worker", "state", "up", "running", "done", "failed", "memory", "queues")
TASK_COLUMNS = ("id", "task", "queue", "state", "try", "enqueued", "progress or error")
FAILURE_COLUMNS = ("id", "task", "failed", "error")

Cells = tuple[str, ...]


class TopView(msgspec.Struct, frozen=True):
    """One moment."""

    now: float
    overview: Overview
    tasks: list[TaskRecord]
    failures: list[TaskRecord]

    @property
    def headline(self) -> str:
        found, totals = self.overview, self.overview.totals
        parts = [
            f"{found.ready:,} ready",
            f"{found.delayed:,} delayed",
            f"{found.running:,}/{found.slots:,} running",
            f"{found.dead:,} dead",
            f"{found.per_second:.1f}/s",
            f"p95 run {_seconds(totals.run_p95)}, wait {_seconds(totals.wait_p95)}",
        ]
        return " · ".join(parts)

    def queue_rows(self) -> list[tuple[str, Cells]]:
        return [(view.name, _queue(view)) for view in self.overview.queues]

    def worker_rows(self) -> list[tuple[str, Cells]]:
        return [(worker.id, _worker(worker)) for worker in self.overview.workers]

    def task_rows(self) -> list[tuple[str, Cells]]:
        return [(record.id, _task(record, self.now)) for record in self.tasks]

    def failure_rows(self) -> list[tuple[str, Cells]]:
        return [(record.id, _failure(record, self.now)) for record in self.failures]

    def shape(self) -> dict[str, Any]:
        """For scripts."""
        from stem.cli.support import json_forms

        found = self.overview
        return {
            "ready": found.ready,
            "delayed": found.delayed,
            "running": found.running,
            "slots": found.slots,
            "dead": found.dead,
            "perSecond": round(found.per_second, 2),
            "totals": found.totals,
            "queues": [view.state.shape() for view in found.queues],
            "workers": [worker.id for worker in found.workers],
            "concerns": found.concerns,
            "failures": [json_forms.record(record) for record in self.failures],
        }


class TaskDetail(msgspec.Struct, frozen=True):
    view: TaskView
    timeline: Timeline
    lines: list[LogLine]


class TopStore:
    """Reads and acts for the screen. Every call may take as long as the store's deadline."""

    def __init__(self, app: Stem) -> None:
        self._app = app

    def read(self) -> TopView:
        store = self._app.store
        with self._revokes() as revokes:
            found = overview(store, revokes, seconds=RATE_SECONDS)
        newest = store.results.page(TaskFilter(), limit=TASKS).items
        failed = store.results.page(TaskFilter(state=State.FAILED), limit=FAILURES).items
        failed.sort(key=lambda record: record.finished_at or record.enqueued_at, reverse=True)
        return TopView(store.upkeep.now(), found, newest, failed)

    def detail(self, task_id: str) -> TaskDetail | None:
        store = self._app.store
        view = task(store, task_id)
        if view is None:
            return None
        lines = [each.line for each in store.task_logs.read(task_id)][-LINES:]
        return TaskDetail(view, timeline(store, view.record), lines)

    def pause(self, queue: str) -> str:
        self._app.control.pause(queue)
        return f"Paused {queue}."

    def resume(self, queue: str) -> str:
        self._app.control.resume(queue)
        return f"Resumed {queue}."

    def revoke(self, task_id: str) -> str:
        self._app.control.revoke(task_id, terminate=True, reason="revoked in stem top")
        return f"Revoked {task_id}."

    def replay(self, task_id: str) -> str:
        replayed = replay_letters(self._app.store, DeadFilter(ids=(task_id,)), 1)
        return f"Replayed {task_id}." if replayed else f"{task_id} is no dead letter; nothing was replayed."

    def _revokes(self) -> AbstractContextManager[Revokes]:
        return self._app.store_connection.revokes()


def print_snapshot(view: TopView) -> None:
    """The same as text, where there is no terminal."""
    import click

    click.echo(view.headline)
    for concern in view.overview.concerns:
        click.echo(printing.plain(f"! {concern.text}"))
    tables: Sequence[tuple[Sequence[str], list[tuple[str, Cells]], str, Sequence[str]]] = (
        (QUEUES, view.queue_rows(), "No queue holds a task.", ("queue", "remark")),
        (WORKERS, view.worker_rows(), "No worker is running.", ("worker", "queues")),
        (FAILURE_COLUMNS, view.failure_rows(), "No task has failed.", ("task", "error")),
    )
    for columns, rows, empty, shrink in tables:
        click.echo()
        printing.table(columns, [cells for _, cells in rows], empty=empty, shrink=shrink, states=_states(columns))


def _states(columns: Sequence[str]) -> Sequence[str]:
    return ("state",) if "state" in columns else ()


def _queue(view: QueueView) -> Cells:
    depth, totals = view.state.depth, view.history.totals
    counts = (depth.ready, depth.delayed, depth.running, depth.dead, len(view.state.workers))
    rate = f"{totals.ended * 60 / RATE_SECONDS:.0f}"
    return (view.name, *map(str, counts), rate, _seconds(totals.run_p95), _seconds(totals.wait_p95), view.state.remark)


def _worker(worker: WorkerSummary) -> Cells:
    return (
        worker.id,
        "silent" if worker.is_silent else worker.state,
        span(worker.uptime_seconds + worker.age_seconds),
        f"{worker.in_flight}/{worker.concurrency}",
        str(worker.succeeded),
        str(worker.failed),
        f"{worker.memory_bytes / 2**20:.0f} MiB",
        ",".join(worker.queues),
    )


def _task(record: TaskRecord, now: float) -> Cells:
    told = printing.error(record.error) or (
        printing.progress(record.meta.get("progress")) if record.state is State.RUNNING else ""
    )
    ago = times.age(record.enqueued_at, now)
    return (record.id, record.name, record.queue, record.state.value, str(record.attempt + 1), ago, told)


def _failure(record: TaskRecord, now: float) -> Cells:
    return (record.id, record.name, times.age(record.finished_at, now), printing.error(record.error))


def _seconds(value: float | None) -> str:
    return "-" if value is None else span(value)
