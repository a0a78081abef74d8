"""Wait for a task and print its result, or raise the error that it ended with."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from stem.cli.support import printing
from stem.core.errors import WaitTimeout
from stem.core.text.escaping import plain_json

if TYPE_CHECKING:
    from stem.client.send.handle import TaskHandle
    from stem.core.record import TaskRecord


def print_outcome(handle: "TaskHandle[Any]", wait_seconds: float, *, as_json: bool) -> None:
    """Wait, then print the result. Raises TaskFailed, TaskCancelled or WaitTimeout if there is none."""
    from stem.client.send.handle import failure_of

    record = _awaited(handle, wait_seconds)
    if as_json:
        printing.json(
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
        why = handle.unserved(record) or f"wait for it with: stem task result {record.id} --wait 30s"
        raise WaitTimeout(f"Task {record.id} is still {record.state}; {why}.")
    if record.state != "succeeded":
        raise failure_of(record)


def _awaited(handle: "TaskHandle[Any]", wait_seconds: float) -> "TaskRecord":
    """Return the record when the task ends, or as it is when the time is up."""
    with suppress(WaitTimeout):
        return handle.wait(wait_seconds)
    return handle.status()
