"""How a task ended, told to whoever waited for it: its value, or the error that stands for it."""

from typing import TYPE_CHECKING, NoReturn

import click

from stem.cli import show
from stem.core.errors import TaskCancelled, TaskFailed, WaitTimeout

if TYPE_CHECKING:
    from stem.core.record import TaskRecord


def tell(record: "TaskRecord", *, as_json: bool) -> None:
    """Print it. Raises TaskFailed, TaskCancelled or WaitTimeout when there is no value to print."""
    if as_json:
        show.json({"id": record.id, "status": record.state, "result": record.payload, "error": record.error})
    elif record.state == "succeeded":
        click.echo("null" if record.payload is None else bytes(record.payload).decode())
    if record.state != "succeeded":
        _raise(record)


def _raise(record: "TaskRecord") -> NoReturn:
    why = f"{record.error.type}: {record.error.message}" if record.error else "no error was recorded"
    if record.state == "failed":
        raise TaskFailed(f"Task {record.id} failed with {why}")
    if record.state == "cancelled":
        raise TaskCancelled(f"Task {record.id} was cancelled ({why}).")
    raise WaitTimeout(
        f"Task {record.id} is still {record.state}; it goes on regardless, ask again with --wait SECONDS."
    )
