"""What workers answered, as a table or as JSON, and the exit code that follows from it."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from stem.cli.support import printing
from stem.cli.worker.control_options import ControlFlags
from stem.core.errors import StemError

if TYPE_CHECKING:
    from stem.control.caller import Answers
    from stem.control.command_session import CommandResult, CommandSession
    from stem.control.registry import ControlCommand
    from stem.core.control import Reply

Payload = dict[str, Any]
Rows = Callable[[Payload], Sequence[tuple[object, ...]]]


class WorkerUnknown(StemError):
    """No heartbeat of that worker is in the store: it has stopped, died a while ago, or beats elsewhere."""

    exit_code = 1


class NotAllAnswered(StemError):
    """A worker said nothing in time, or said no; what the others said has been printed."""


class NotUnderstood(NotAllAnswered):
    """Whoever answered was given a value that cannot be meant."""

    exit_code = 64


def show(
    flags: ControlFlags,
    session: "CommandSession",
    result: "CommandResult",
    entry: "ControlCommand",
    options: msgspec.Struct,
) -> None:
    """Print worker, state, and a line for each row of its reply. Raises WorkerUnknown where nobody could be asked, and
    NotAllAnswered."""
    answers, as_json = result.answers, flags.session.as_json
    if result.note and not as_json:
        click.echo(printing.plain(result.note))
    is_unheard = answers is None or is_known_to_nobody(answers)
    if is_unheard and not result.without_workers and answers is not None:
        raise _no_worker(session, answers)
    if as_json:
        printing.json({**(shape(answers) if answers is not None else {"replies": []}), **result.more})
    elif is_unheard:
        click.echo(printing.plain(result.without_workers))
    elif answers is not None:
        columns = entry.columns if isinstance(entry.columns, tuple) else entry.columns(options)
        table = list(_rows(answers, entry.rows, len(columns)))
        # A reply that is the last column may be a sentence; it is told whole.
        printing.table(("worker", "state", *columns), table, empty="", shrink=entry.shrink)
        if not answers.is_verified:
            click.echo("unverified (no keys are set)")
    if answers is not None and not is_unheard:
        _check_all_ok(answers)


def shape(answers: "Answers") -> Payload:
    replies = [
        {**msgspec.to_builtins(reply), "state": answers.health[worker]} for worker, reply in answers.replies.items()
    ]
    for reply in replies:
        reply.pop("auth", None)  # it has been verified here, and is of no use to others
    return {
        "requestId": answers.request_id,
        "transport": answers.transport,
        "elapsedSeconds": round(answers.elapsed_seconds, 4),
        "verified": answers.is_verified,
        "replies": replies,
    }


def is_known_to_nobody(answers: "Answers") -> bool:
    """Nobody has answered, and nobody was expected who is known."""
    return all(reply.error is not None and reply.error.code == "unknown-worker" for reply in answers.replies.values())


def _rows(answers: "Answers", rows: Rows, width: int) -> Iterator[tuple[object, ...]]:
    for worker, reply in answers.replies.items():
        state = answers.health[worker]
        if reply.status != "ok":
            yield (worker, state, _complaint(reply), *[""] * (width - 1))
        else:
            for row in _told(reply, rows) or [("nothing", *[""] * (width - 1))]:
                yield (worker, state, *row, *[""] * (width - len(row)))


def _told(reply: "Reply", rows: Rows) -> Sequence[tuple[object, ...]]:
    """A reply may come from anybody who can write to the store, and hold anything."""
    try:
        return rows(reply.payload)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        return [("its reply cannot be read",)]


def _no_worker(session: "CommandSession", answers: "Answers") -> WorkerUnknown:
    where = f"is running in namespace {session.caller.namespace!r} on {session.store.url}"
    if answers.replies:
        names = ", ".join(answers.replies)
        return WorkerUnknown(f"No worker {names} {where}; see which are with: stem worker status")
    return WorkerUnknown(f"No worker {where}; start one with: stem worker start --app MODULE:NAME")


def _check_all_ok(answers: "Answers") -> None:
    wrong = {worker: reply for worker, reply in answers.replies.items() if reply.status != "ok"}
    if not wrong:
        return
    told = " ".join(f"{worker}: {_complaint(reply)}" for worker, reply in wrong.items())
    verb = "did not answer" if all(reply.status == "timeout" for reply in wrong.values()) else "did not do as asked"
    sentence = f"{len(wrong)} of {len(answers.replies)} workers {verb}. {told}"
    is_misuse = all(reply.error is not None and reply.error.code == "invalid-payload" for reply in wrong.values())
    raise NotUnderstood(sentence) if is_misuse else NotAllAnswered(sentence)


def _complaint(reply: "Reply") -> str:
    return reply.error.message if reply.error is not None else reply.status
