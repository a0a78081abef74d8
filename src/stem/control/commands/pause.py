"""Pause queues: store it, then tell workers."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from stem.control.command_session import CommandResult, CommandSession
from stem.control.registry import Call, Option, Payload, command
from stem.core.envelope import check_queue
from stem.core.errors import StemError
from stem.core.pause import SignedScope

if TYPE_CHECKING:
    from stem.contracts.steering.revokes import Revokes
    from stem.control.pausing import Verb

QueueName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:\-]{0,127}\Z")]


class QueueUnknown(StemError):
    """Nobody has used a queue of that name."""

    exit_code = 1


class Queues(Payload, frozen=True):
    """`signed` is what the sender has signed and stored, by queue: a worker takes nothing older from the store any more."""

    queues: tuple[QueueName, ...] = ()
    signed: dict[QueueName, SignedScope] = msgspec.field(default_factory=dict)


class QueueOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator says to pause or resume queues."""

    queues: Annotated[
        tuple[str, ...],
        Option(
            "QUEUE -Q --queue",
            "The same as QUEUE; may be repeated.",
            metavar="QUEUE",
            missing="Name at least one queue, as QUEUE or --queue QUEUE",
        ),
    ]
    unknown_ok: Annotated[bool, Option("--unknown-ok", "Accept a queue that nobody has used so far.")] = False

    def __post_init__(self) -> None:
        for queue in self.queues:
            check_queue(queue)


def change_queues(verb: "Verb", session: CommandSession, options: QueueOptions) -> CommandResult:
    """Store the pause or its end, then tell workers."""
    from stem.control.pausing import change_pauses

    with session.revokes() as revokes:
        if not options.unknown_ok:
            _check_known(session, options.queues, revokes)
        done = change_pauses(session, revokes, verb, options.queues)
    return CommandResult(
        answers=done.answers,
        more={"scopes": done.scopes},
        without_workers=f"No workers are running; the {verb} is stored and applies to workers that start later.",
    )


def _check_known(session: CommandSession, queues: tuple[str, ...], revokes: "Revokes") -> None:
    from stem.control.queue_states import queue_states, unknown_queues

    unknown = unknown_queues(queues, queue_states(session.store, revokes, queues))
    if unknown:
        raise QueueUnknown(
            f"No task has waited in the queue {', '.join(unknown)} and no worker serves it, so nothing was changed; "
            "add --unknown-ok if one will come."
        )


def paused_rows(told: dict[str, Any]) -> list[tuple[object, ...]]:
    paused: list[str] = told["paused"]
    return [(", ".join(paused) or "none",)]


@command(
    "pause",
    changes=True,
    options=QueueOptions,
    ask=partial(change_queues, "pause"),
    columns=("paused",),
    rows=paused_rows,
)
def pause(call: Call[Queues]) -> dict[str, Any]:
    """Start no more tasks of these queues, on all workers or on those named.

    What runs goes on; what was claimed goes back. The pause is stored: workers that start later heed it as well. Exit code 1
    if nobody knows a queue of that name; nothing is paused then.

    \b
    Example: stem queue pause default
             stem worker pause --worker worker-a --queue default
    """
    call.worker.note_pauses(call.payload.signed)
    return {"paused": call.worker.pause(call.payload.queues)}
