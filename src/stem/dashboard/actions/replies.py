"""Say what workers answered."""

from typing import TYPE_CHECKING

from stem.dashboard.handling import ActionResult
from stem.dashboard.pages.workers import WorkerGone

if TYPE_CHECKING:
    from stem.control.caller import Answers


def told(sentence: str, answers: "Answers | None", *, unconfirmed: str = "") -> ActionResult:
    """Return the sentence of what the store keeps, with what those workers said that did not obey. `unconfirmed` is the
    sentence if none did."""
    replies = {} if answers is None else answers.replies
    if not replies:
        return ActionResult(f"{sentence} No worker is running; those that start later heed it.")
    problems = tuple(problems_of(answers).values())
    heard = len(replies) - len(problems)
    noun = "worker has" if len(replies) == 1 else "workers have"
    return ActionResult(
        f"{sentence if heard else unconfirmed or sentence} {heard} of {len(replies)} {noun} confirmed it.",
        details=problems,
        is_partly=bool(problems),
    )


def told_by(worker: str, sentence: str, answers: "Answers | None") -> ActionResult:
    """Return the sentence of what only this worker can do, or why it has not. Raises WorkerGone."""
    reply = None if answers is None else answers.replies.get(worker)
    if reply is None or (reply.error is not None and reply.error.code == "unknown-worker"):
        raise WorkerGone(f"Not done: no worker {worker} is known; it has stopped, or its heartbeat has expired.")
    if reply.status != "ok":
        reason = reply.error.message if reply.error else f"{worker} has not confirmed it ({reply.status})."
        return ActionResult(f"Not done: {reason}", is_failed=True)
    return ActionResult(f"{sentence} 1 of 1 worker has confirmed it.")


def problems_of(answers: "Answers | None") -> dict[str, str]:
    """Return why those workers have not obeyed that have not, by worker."""
    return {
        worker: f"{worker}: {reply.error.message if reply.error else reply.status}"
        for worker, reply in ({} if answers is None else answers.replies).items()
        if reply.status != "ok"
    }
