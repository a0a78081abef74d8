"""The logger of a running task: its records carry the task's fields."""

from logging import Logger, LoggerAdapter, getLogger
from typing import TYPE_CHECKING, Any

from stem.telemetry import tracing

if TYPE_CHECKING:
    from stem.client.run.context import TaskContext


class TaskLogger(LoggerAdapter[Logger]):
    """Adds the task's fields to those that the caller gives."""

    def __init__(self, context: "TaskContext") -> None:
        fields: dict[str, object] = {
            "task_id": context.id,
            "task_name": context.name,
            "queue": context.queue,
            "attempt": context.attempt,
            "worker": context.worker,
        }
        if trace_id := tracing.current_trace_id():
            fields["trace_id"] = trace_id
        super().__init__(getLogger(f"stem.task.{context.name}"), fields)

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        return msg, {**kwargs, "extra": {**(self.extra or {}), **(kwargs.get("extra") or {})}}
