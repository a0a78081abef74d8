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


class NotUnderstood(NotAllAnswered):
    """Whoever answered was given a value that cannot be meant."""

    exit_code = 64


def tell(
    asking: Asking,
    line: Line,
    answers: "Answers",
    *columns: str,
    rows: Rows,
    more: Payload | None = None,
    shrink: Sequence[str] = (),
) -> None:
    """Worker, state, and a line for each row of its reply. Raises WorkerUnknown where nobody could be asked, and
    NotAllAnswered. `more` is what JSON has beside the replies."""
    _check_anybody(line, answers)
    if asking.session.as_json:
        show.json({**shape(answers), **(more or {})})
    else:
        table = list(_rows(answers, rows, len(columns)))
        # A reply that is the last column may be a sentence; it is told whole.
        show.table(("worker", "state", *columns), table, empty="", shrink=shrink)
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
    where = f"is running in namespace {line.settings.control_namespace!r} on {line.store.url}"
    if answers.replies:
        names = ", ".join(answers.replies)
        raise WorkerUnknown(f"No worker {names} {where}; see which are with: stem worker status")
    raise WorkerUnknown(f"No worker {where}; start one with: stem worker start --app MODULE:NAME")


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
