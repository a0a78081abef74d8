"""What needs an operator's attention first: one sentence each, with where to look."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from stem.contracts.schedules import Scheduled
from stem.control.queue_states import QueueState
from stem.observe.dead_letters import LetterGroup
from stem.observe.rates import Totals
from stem.observe.workers import WorkerSummary

Level = Literal["failure", "warning"]
FAILURE_SHARE = 0.1  # of a task's endings, from which on it is named
LEAST_FAILURES = 3
MOST_GROUPS = 3


class Concern(msgspec.Struct, frozen=True):
    """`kind` and `subject` say which page shows more: the queue `mail`, the worker `w1`, …"""

    level: Level
    text: str
    kind: Literal["queue", "worker", "task-name", "letters", "schedule", "store"]
    subject: str = ""


def concerns(
    *,
    queues: Sequence[QueueState],
    workers: Sequence[WorkerSummary],
    tasks: Iterable[tuple[str, Totals]],
    letters: Sequence[LetterGroup],
    schedules: Sequence[Scheduled],
    broken_schedules: Sequence[str],
    warnings: Sequence[str],
) -> list[Concern]:
    """Failures before warnings, otherwise in the order of the parameters."""
    found = [
        *_queues(queues),
        *_workers(workers),
        *_tasks(tasks),
        *_letters(letters),
        *_schedules(schedules, broken_schedules),
        *(Concern("warning", text, "store") for text in warnings),
    ]
    return sorted(found, key=lambda concern: concern.level != "failure")


def _queues(queues: Sequence[QueueState]) -> Iterable[Concern]:
    for queue in queues:
        waiting = queue.depth.ready
        if waiting and not queue.workers:
            text = f"{waiting:,} {_tasks_wait(waiting)} in {queue.name}, and no worker serves it."
            yield Concern("failure", text, "queue", queue.name)
        elif waiting and queue.paused:
            text = f"{queue.name} is paused, and {waiting:,} {_tasks_wait(waiting)} in it."
            yield Concern("warning", text, "queue", queue.name)


def _workers(workers: Sequence[WorkerSummary]) -> Iterable[Concern]:
    for worker in workers:
        if worker.is_silent:
            text = f"{worker.kind.capitalize()} {worker.id} was last heard {worker.age_seconds:.0f} s ago."
            yield Concern("failure", text, "worker", worker.id)
        elif worker.state == "wedged":
            yield Concern("failure", f"Worker {worker.id} lives but claims nothing.", "worker", worker.id)


def _tasks(tasks: Iterable[tuple[str, Totals]]) -> Iterable[Concern]:
    bad = [
        (name, totals, share)
        for name, totals in tasks
        if (share := totals.failure_share or 0.0) >= FAILURE_SHARE and totals.failed >= LEAST_FAILURES
    ]
    for name, totals, share in sorted(bad, key=lambda each: -each[1].failed)[:MOST_GROUPS]:
        yield Concern("failure", f"{name} fails: {totals.failed:,} times, {share:.0%} of its tasks.", "task-name", name)


def _letters(groups: Sequence[LetterGroup]) -> Iterable[Concern]:
    for group in groups[:MOST_GROUPS]:
        text = f"{group.count:,} dead {'letter' if group.count == 1 else 'letters'} of {group.title}"
        yield Concern("warning", text, "letters", group.fingerprint)


def _schedules(schedules: Sequence[Scheduled], broken: Sequence[str]) -> Iterable[Concern]:
    for found in schedules:
        entry, state = found.entry, found.state
        if entry.is_enabled and state.failures_in_a_row:
            text = f"Schedule {entry.id} has failed {state.failures_in_a_row} times in a row."
            yield Concern("warning", text, "schedule", entry.id)
        elif not entry.is_enabled and entry.pause_after_failures and state.failures_in_a_row:
            yield Concern("failure", f"Schedule {entry.id} was disabled after failures.", "schedule", entry.id)
    for entry_id in broken:
        yield Concern("failure", f"Schedule {entry_id} cannot be read; write it anew.", "schedule", entry_id)


def _tasks_wait(count: int) -> str:
    return "task waits" if count == 1 else "tasks wait"
