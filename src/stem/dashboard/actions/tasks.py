"""Act on one task, or on all that a search matches."""

from typing import Any

import msgspec

from stem.control.dead_letters import replay_letters
from stem.core.delivery import DeadFilter
from stem.core.envelope import Envelope, check_id
from stem.core.errors import DeadLetterNotFound, TaskEnded, TaskNotFound, UsageError
from stem.core.record import REPLAY_OF
from stem.core.text.sensitive import unmasked_object
from stem.dashboard.actions.replies import problems_of, told
from stem.dashboard.handling import ActionRequest, ActionResult
from stem.dashboard.pages.tasks import VERBS, applies
from stem.dashboard.searching import search_of
from stem.observe.signatures import why_unsigned
from stem.observe.task import TaskView, task
from stem.observe.tasks import matching

AT_ONCE = 500  # ids in one call


def revoke_task(ask: ActionRequest) -> ActionResult:
    task_id = check_id(ask.path["task_id"])
    result = ask.desk.stem.control.revoke(task_id, reason=_reason(ask))
    text = "It is cancelled." if result.cancelled else "It does not run again; what runs now goes on."
    return told(f"Revoked. {text}", result.answers)


def terminate_task(ask: ActionRequest) -> ActionResult:
    task_id = check_id(ask.path["task_id"])
    signal = ask.form.get("signal") or "SIGTERM"
    result = ask.desk.stem.control.revoke(task_id, terminate=True, signal=signal, reason=_reason(ask))
    return told(
        "Revoked, and stopped where it runs.",
        result.answers,
        unconfirmed="Revoked, so it does not run again; nobody has said that it is stopped.",
    )


def retry_task(ask: ActionRequest) -> ActionResult:
    """Queue a dead letter again, as it was sent."""
    task_id = check_id(ask.path["task_id"])
    ids = replay_letters(ask.store, DeadFilter(ids=(task_id,)))
    if not ids:
        raise DeadLetterNotFound(
            f"{task_id} is no dead letter, or no more; run it again with the same arguments instead."
        )
    return ActionResult("Queued again, with all its retries.", task_ids=tuple(ids))


def run_again(ask: ActionRequest) -> ActionResult:
    """Enqueue a new task with the arguments of the form, and otherwise as this one was sent. It is signed with our key,
    so where there is one, this one has to be signed as well."""
    task_id = check_id(ask.path["task_id"])
    found = task(ask.store, task_id)
    if found is None:
        raise TaskNotFound(f"There is no task {task_id} here; its result has expired.")
    if refusal := why_unsigned(ask.desk.stem.store_connection, found):
        raise UsageError(f"Nothing was enqueued: {refusal}")
    arguments = _unmasked(_arguments(ask.form.get("arguments", "")), found.envelope)
    handle = ask.desk.stem.enqueue(found.record.name, arguments, check=False, **_options(found))
    return ActionResult("Enqueued as a new task.", task_ids=(handle.id,))


def send_event(ask: ActionRequest) -> ActionResult:
    """Give a task the event that it waits for, now or later."""
    task_id, name = check_id(ask.path["task_id"]), ask.text("event")
    if name is None:
        raise UsageError("The event has no name; give the one that the task waits for.")
    try:
        ask.desk.stem.send_event(task_id, name, _event_data(ask.form.get("data", "")))
    except TaskEnded as error:
        raise UsageError(str(error)) from error
    return ActionResult(f"Sent {name}. The first event of a name counts.", task_ids=(task_id,))


def act_on_all(ask: ActionRequest) -> ActionResult:
    """Do it to exactly the tasks that were counted when the operator was asked; else refuse and say how many there are now."""
    verb = ask.form.get("verb", "")
    if verb not in VERBS:
        raise UsageError(f"There is no action {verb!r}; choose one of {', '.join(VERBS)}.")
    found = matching(ask.store, search_of(ask.form, ask.store.upkeep.now()))
    ids = [record.id for record in found.records if applies(verb, record.state)]
    if ask.form.get("expected") != str(len(ids)):
        raise UsageError(
            f"{len(ids):,} tasks match now, and {ask.form.get('expected') or 'none'} did when you were asked; nothing was "
            "done, look at them again."
        )
    return _replay_all(ask, ids) if verb == "replay" else _revoke_all(ask, ids, is_terminated=verb == "terminate")


def _replay_all(ask: ActionRequest, ids: list[str]) -> ActionResult:
    replayed: list[str] = []
    for start in range(0, len(ids), AT_ONCE):
        replayed += replay_letters(ask.store, DeadFilter(ids=tuple(ids[start : start + AT_ONCE])))
    return ActionResult(f"Replayed {len(replayed):,} of {len(ids):,}.", is_partly=len(replayed) < len(ids))


def _revoke_all(ask: ActionRequest, ids: list[str], *, is_terminated: bool) -> ActionResult:
    cancelled, unconfirmed = 0, dict[str, str]()
    for start in range(0, len(ids), AT_ONCE):
        part = ids[start : start + AT_ONCE]
        result = ask.desk.stem.control.revoke(*part, terminate=is_terminated, reason=_reason(ask))
        cancelled += len(result.cancelled)
        unconfirmed |= problems_of(result.answers)
    return ActionResult(
        f"Revoked {len(ids):,}; {cancelled:,} of them waited and are cancelled.",
        details=tuple(unconfirmed.values()),
        is_partly=bool(unconfirmed),
    )


def _reason(ask: ActionRequest) -> str:
    return (ask.text("reason") or f"revoked by {ask.user.name}")[:200]


def _arguments(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(f'The arguments are no JSON object ({error}); write them like {{"to": "ada"}}.') from error


def _unmasked(arguments: dict[str, Any], envelope: Envelope | None) -> dict[str, Any]:
    if envelope is None or not envelope.sensitive:
        return arguments
    return unmasked_object(arguments, envelope.arguments(), envelope.sensitive)


def _event_data(text: str) -> Any:
    try:
        return msgspec.json.decode(text.strip() or "null")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(f'The data is no JSON ({error}); write it like {{"approved": true}}.') from error


def _options(found: TaskView) -> dict[str, Any]:
    """As the task was sent, as far as that is known."""
    record = found.record
    meta = {**_own_meta(found.envelope), REPLAY_OF: record.id}
    options: dict[str, Any] = {"queue": record.queue, "priority": record.priority, "meta": meta}
    if found.envelope is not None:
        headers = {k: v for k, v in found.envelope.headers.items() if not k.lower().startswith("stem-")}
        options |= {"headers": headers, "max_retries": found.envelope.max_retries}
        options["sensitive"] = found.envelope.sensitive
    return options


def _own_meta(envelope: Envelope | None) -> dict[str, Any]:
    return {} if envelope is None else dict(envelope.meta)
