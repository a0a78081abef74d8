"""Lines of tasks are written in batches; those that cannot be are dropped, and counted."""

import logging
from collections.abc import Sequence

import pytest

from stem.contracts.task_logs import LogLine, TaskLogs
from stem.core.errors import StoreUnavailable
from stem.worker.services.task_output import AT_ONCE, MOST_WAITING, TaskOutputWriter


class AwayLogs(TaskLogs):
    """A store that is away at times."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.is_away = False

    def _append(self, lines: Sequence[tuple[str, str]]) -> None:
        if self.is_away:
            raise StoreUnavailable("The store is away.")
        self.batches.append(len(lines))

    def _read(self, task_id: str, after: str | None, limit: int) -> Sequence[tuple[str, str]]:
        return []


def lines(count: int) -> list[LogLine]:
    return [LogLine(task_id="a", attempt=0, at=0.0, level="info", text=str(number)) for number in range(count)]


def test_lines_are_written_in_batches() -> None:
    logs = AwayLogs()
    writer = TaskOutputWriter(logs)
    writer.tick()
    writer.add(lines(AT_ONCE + 1))
    writer.tick()
    assert logs.batches == [AT_ONCE, 1]


def test_lines_are_dropped_and_counted_while_the_store_is_away(caplog: pytest.LogCaptureFixture) -> None:
    logs = AwayLogs()
    writer = TaskOutputWriter(logs)
    logs.is_away = True
    writer.add(lines(3))
    writer.tick()
    assert "task_logs.dropped lines=3" in caplog.text
    logs.is_away = False
    writer.add(lines(2))
    writer.tick()
    assert logs.batches == [2]


def test_memory_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    logs = AwayLogs()
    writer = TaskOutputWriter(logs)
    for _ in range(3):
        writer.add(lines(MOST_WAITING // 2))
    writer.tick()
    assert sum(logs.batches) == MOST_WAITING
    assert f"task_logs.dropped lines={MOST_WAITING // 2}" in caplog.text
