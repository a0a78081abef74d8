"""Steer workers: ping, pause, resume, autoscale, recycle, shut down."""

from typing import Any, get_args

from stem.contracts.steering.control import ShutdownMode
from stem.core.errors import UsageError
from stem.dashboard.actions.replies import told
from stem.dashboard.handling import ActionRequest, ActionResult
from stem.dashboard.pages.workers import WorkerGone
from stem.observe.workers import workers

NOBODY = "It is not there any more."


def ping_worker(ask: ActionRequest) -> ActionResult:
    name = _name(ask)
    answers = ask.desk.stem.control.ping(workers=[name])
    reply = answers.replies[name]
    if reply.status != "ok":
        return ActionResult(
            f"{name} does not answer.", details=(reply.error.message if reply.error else "",), is_partly=True
        )
    return ActionResult(f"{name} answered in {answers.elapsed_seconds * 1000:.0f} ms: {answers.health[name]}.")


def pause_worker(ask: ActionRequest) -> ActionResult:
    """All queues that it serves, on this worker only."""
    name = _name(ask)
    paused = ask.desk.stem.control.pause(*_queues(ask, name), workers=[name])
    return told(f"{name} claims nothing more until it is resumed.", paused.answers, without_workers=NOBODY)


def resume_worker(ask: ActionRequest) -> ActionResult:
    name = _name(ask)
    resumed = ask.desk.stem.control.resume(*_queues(ask, name), workers=[name])
    return told(f"{name} claims tasks again.", resumed.answers, without_workers=NOBODY)


def autoscale_worker(ask: ActionRequest) -> ActionResult:
    name = _name(ask)
    changes: dict[str, Any] = {"enabled": ask.form.get("enabled") == "on"}
    for field in ("min", "max"):
        if (text := ask.text(field)) is not None:
            if not text.isdecimal() or len(text) > 6:
                raise UsageError(f"{field} is {text!r}; give a whole number.")
            changes[field] = int(text)
    answers = ask.desk.stem.control.ask("autoscale-config", changes, workers=[name])
    state = "on" if changes["enabled"] else "off"
    return told(f"Autoscaling of {name} is {state} until it is restarted.", answers, without_workers=NOBODY)


def recycle_worker(ask: ActionRequest) -> ActionResult:
    name = _name(ask)
    answers = ask.desk.stem.control.ask("recycle", {}, workers=[name])
    return told(f"{name} replaces its isolates, each after the task it runs.", answers, without_workers=NOBODY)


def shut_down_worker(ask: ActionRequest) -> ActionResult:
    name = _name(ask)
    mode: ShutdownMode = ask.form.get("mode", "warm")  # type: ignore[assignment]
    if mode not in get_args(ShutdownMode):
        raise UsageError(f"There is no shutdown {mode!r}; choose warm, soft or hard.")
    answers = ask.desk.stem.control.shutdown(mode, workers=[name])
    return told(f"{name} shuts down ({mode}).", answers, without_workers=NOBODY)


def _name(ask: ActionRequest) -> str:
    return ask.path["worker"]


def _queues(ask: ActionRequest, name: str) -> list[str]:
    for worker in workers(ask.store):
        if worker.id == name:
            return worker.queues
    raise WorkerGone(f"No worker {name} is known; it has stopped, or its heartbeat has expired.")
