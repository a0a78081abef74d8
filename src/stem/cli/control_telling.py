"""What workers answered, as a table or as JSON, and the exit code that follows from it."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from stem.cli import show
from stem.cli.control_asking import Asking, Line
from stem.core.errors import StemError

if TYPE_CHECKING:
    from stem.control.caller import Answers
    from stem.core.control import Reply

Payload = dict[str, Any]
Rows = Callable[[Payload], Sequence[tuple[object, ...]]]


class WorkerUnknown(StemError):
    """No heartbeat of that worker is in the store: it has stopped, died a while ago, or beats elsewhere."""

    exit_code = 1


class NotAllAnswered(StemError):
    """A worker said nothing in time, or said no; what the others said has been printed."""


def tell(
    asking: Asking, line: Line, answers: "Answers", *columns: str, rows: Rows, more: Payload | None = None
) -> None:
    """Worker, state, and a line for each row of its reply. Raises WorkerUnknown where nobody could be asked, and
    NotAllAnswered. `more` is what JSON has beside the replies."""
    _check_anybody(line, answers)
    if asking.session.as_json:
        show.json({**shape(answers), **(more or {})})
    else:
        show.table(("worker", "state", *columns), list(_rows(answers, rows, len(columns))), empty="")
        if not answers.is_verified:
            click.echo("unverified (no keys are set)")
    _check_all_ok(answers)


def tell_nobody(asking: Asking, answers: "Answers | None", sentence: str, more: Payload) -> None:
    """What was written down holds without anybody there to be told."""
    if asking.session.as_json:
        show.json({**(shape(answers) if answers is not None else {"replies": []}), **more})
    else:
        click.echo(show.plain(sentence))


def shape(answers: "Answers") -> Payload:
    import msgspec

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


def _check_anybody(line: Line, answers: "Answers") -> None:
    if not is_known_to_nobody(answers):
        return
    where = f"listens under {line.settings.control_namespace} in {line.store.url}"
    remedy = "see which are there with: stem worker status"
    if answers.replies:
        raise WorkerUnknown(f"No worker {', '.join(answers.replies)} {where}; {remedy}")
    raise WorkerUnknown(f"No worker {where}; start one with: stem worker start --app MODULE:NAME")


def _check_all_ok(answers: "Answers") -> None:
    wrong = {worker: reply for worker, reply in answers.replies.items() if reply.status != "ok"}
    if wrong:
        told = " ".join(f"{worker}: {_complaint(reply)}" for worker, reply in wrong.items())
        raise NotAllAnswered(f"{len(wrong)} of {len(answers.replies)} workers did not do as asked. {told}")


def _complaint(reply: "Reply") -> str:
    return reply.error.message if reply.error is not None else reply.status
