"""Say what workers answered."""

from typing import TYPE_CHECKING

from stem.dashboard.handling import ActionResult

if TYPE_CHECKING:
    from stem.control.caller import Answers


def told(sentence: str, answers: "Answers | None", *, without_workers: str = "") -> ActionResult:
    """Return the sentence, with what those workers said that did not obey."""
    replies = {} if answers is None else answers.replies
    if not replies:
        return ActionResult(f"{sentence} {without_workers or 'No worker is running; those that start later heed it.'}")
    problems = tuple(
        f"{worker}: {reply.error.message if reply.error else reply.status}"
        for worker, reply in replies.items()
        if reply.status != "ok"
    )
    heard = len(replies) - len(problems)
    noun = "worker has" if len(replies) == 1 else "workers have"
    return ActionResult(
        f"{sentence} {heard} of {len(replies)} {noun} confirmed it.", details=problems, is_partly=bool(problems)
    )
