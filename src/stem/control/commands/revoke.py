"""Revoke tasks: store it, then tell workers."""

from typing import Annotated, Any, Literal

import msgspec

from stem.control.command_session import CommandResult, CommandSession
from stem.control.registry import Call, Option, Payload, command
from stem.core.errors import TaskNotFound
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


class RevokeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator says; workers are then told the records that the store gave."""

    ids: Annotated[
        tuple[str, ...],
        Option("ID --task", "The same as ID; may be repeated.", metavar="ID", missing="Name at least one task"),
    ]
    terminate: Annotated[bool, Option("--terminate", "Also stop running tasks.")] = False
    signal: Annotated[
        Signal, Option("--signal", "With --terminate: send this signal to a task that does not stop when asked.")
    ] = "SIGTERM"
    reason: Annotated[str, Option("--reason", "Note this reason in the task's record.")] = ""
    expires_seconds: Annotated[
        float | None, Option("--expires", "Forget the revoke after this long: 7d.  [default: never]")
    ] = None
    unknown_ok: Annotated[
        bool, Option("--unknown-ok", "Accept ids that are not in the store, to revoke tasks before they are enqueued.")
    ] = False

    def __post_init__(self) -> None:
        from stem.control.revoking import check_revocable

        check_revocable(self.ids)


def _ask(session: CommandSession, options: RevokeOptions) -> CommandResult:
    from stem.control.revoking import revoke_tasks

    if not options.unknown_ok:
        _check_known(session, options.ids)
    done = revoke_tasks(
        session,
        options.ids,
        terminate=options.terminate,
        signal=options.signal,
        reason=options.reason,
        expires_seconds=options.expires_seconds,
    )
    stored = "No workers are running; the revocation is stored and applies to workers that start later."
    return CommandResult(
        answers=done.answers,
        more={"revoked": done.records, "cancelled": done.cancelled},
        note=f"Cancelled before they started: {', '.join(done.cancelled)}" if done.cancelled else "",
        without_workers=f"Revoked {len(options.ids)}. {stored}",
    )


def _check_known(session: CommandSession, ids: tuple[str, ...]) -> None:
    """Before anything is written: a slip in an id would otherwise look like a task that was stopped."""
    found = session.store.results.get(ids)
    unknown = [task_id for task_id in ids if task_id not in found]
    if unknown:
        there = f"in namespace {session.store.namespace!r} on {session.store.url}"
        remedy = "add --unknown-ok to revoke an id before it is enqueued"
        raise TaskNotFound(f"There is no task {', '.join(unknown[:5])} {there}, so nothing was revoked; {remedy}.")


@command(
    "revoke",
    changes=True,
    options=RevokeOptions,
    ask=_ask,
    columns=("id", "outcome"),
    rows=lambda told: list(told["tasks"].items()),
    for_all_workers="A revoke holds for all workers, whoever runs the task; leave out --worker.",
)
def revoke(call: Call[Revoke]) -> dict[str, Any]:
    """Never run these tasks: the revocation is stored first, then workers are told.

    A task that waits is cancelled. One that runs goes on, or with --terminate is told to stop, and ended if it does not. The
    revocation holds for all workers, also for those that start later. Exit code 1 if the store does not know an id; nothing is
    revoked then.

    \b
    Example: stem task revoke 0190a5d2 --terminate --reason "wrong customer"
             stem worker revoke --task 0190a5d2 --task 0190a5d3
    """
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
