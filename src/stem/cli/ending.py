"""How a task ended, told to whoever waited for it: its value, or the error that stands for it."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from stem.cli import show
from stem.core.errors import WaitTimeout
from stem.core.escaping import plain_json

if TYPE_CHECKING:
    from stem.client.handle import TaskHandle
    from stem.core.record import TaskRecord


def tell(handle: "TaskHandle[Any]", wait_seconds: float, *, as_json: bool) -> None:
    """Wait for it so long, and print it. Raises TaskFailed, TaskCancelled or WaitTimeout when there is no value to print."""
    from stem.client.handle import failure_of

    record = _awaited(handle, wait_seconds)
    if as_json:
        show.json(
            {
                "id": record.id,
                "status": record.state,
                "state": record.state,
                "result": record.payload,
                "error": record.error,
            }
        )
    elif record.state == "succeeded":
        click.echo("null" if record.payload is None else plain_json(bytes(record.payload).decode()))
    if not record.is_terminal:
        raise WaitTimeout(
            f"Task {record.id} is still {record.state}; the task itself is unaffected. Ask again with --wait SECONDS."
        )
    if record.state != "succeeded":
        raise failure_of(record)


def _awaited(handle: "TaskHandle[Any]", wait_seconds: float) -> "TaskRecord":
    """The record at its end, or as it is when the time is up."""
    with suppress(WaitTimeout):
        return handle.wait(wait_seconds)
    return handle.status()
