"""Do not run these tasks."""

from typing import Annotated, Any, Literal

import msgspec

from stem.control.registry import Call, Payload, command
from stem.core.record import moment
from stem.core.revoke import RevokeRecord

Signal = Literal["SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGKILL"]
TaskId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:\-]{0,127}\Z")]


class Revoke(Payload, frozen=True):
    """Ids, or the records that the store gave for them; a record says more, so it counts before an id."""

    task_ids: tuple[TaskId, ...] = ()
    records: tuple[RevokeRecord, ...] = ()
    terminate: bool = False
    signal: Signal = "SIGTERM"

    def __post_init__(self) -> None:
        if not self.task_ids and not self.records:
            raise ValueError("Name at least one task in `taskIds` or `records`")


@command("revoke", Revoke, changes=True, help="Do not run these tasks; with terminate, stop those that run.")
def revoke(call: Call[Revoke]) -> dict[str, Any]:
    payload = call.payload
    known = {record.task_id: record for record in payload.records}
    bare = [_bare(task_id, call) for task_id in dict.fromkeys(payload.task_ids) if task_id not in known]
    return {"tasks": call.worker.revoke([*known.values(), *bare], payload.terminate, payload.signal)}


def _bare(task_id: str, call: Call[Revoke]) -> RevokeRecord:
    """Version 0 is older than any that a store gives, so it replaces none that the worker knows."""
    payload = call.payload
    signal = payload.signal if payload.terminate else None
    created_at = moment(call.issued_at)
    return RevokeRecord(task_id=task_id, version=0, terminate=payload.terminate, signal=signal, created_at=created_at)
