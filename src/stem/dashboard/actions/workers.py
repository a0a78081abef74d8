"""Steer workers: ping, pause, resume, autoscale, recycle, shut down."""

from typing import Any, get_args

from stem.contracts.steering.control import ShutdownMode
from stem.core.errors import UsageError
from stem.dashboard.actions.replies import told_by
from stem.dashboard.handling import ActionRequest, ActionResult
from stem.dashboard.pages.workers import WorkerGone
from stem.observe.workers import workers


def ping_worker(ask: ActionRequest) -> ActionResult:
    name = _name(ask)
    answers = ask.desk.stem.control.ping(workers=[name])
    done = told_by(name, "", answers)
    if done.is_failed:
        return done
    return ActionResult(f"{name} answered in {answers.elapsed_seconds * 1000:.0f} ms: {answers.health[name]}.")


def pause_worker(ask: ActionRequest) -> ActionResult:
    """All queues that it serves, on this worker only."""
    name = _name(ask)
    paused = ask.desk.stem.control.pause(*_queues(ask, name), workers=[name])
    return told_by(name, f"{name} claims nothing more until it is resumed.", paused.answers)


def resume_worker(ask: ActionRequest) -> ActionResult:
    name = _name(ask)
    resumed = ask.desk.stem.control.resume(*_queues(ask, name), workers=[name])
    return told_by(name, f"{name} claims tasks again.", resumed.answers)


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
    return told_by(name, f"Autoscaling of {name} is {state} until it is restarted.", answers)


def recycle_worker(ask: ActionRequest) -> ActionResult:
    name = _name(ask)
    answers = ask.desk.stem.control.ask("recycle", {}, workers=[name])
    return told_by(name, f"{name} replaces its isolates, each after the task it runs.", answers)


def shut_down_worker(ask: ActionRequest) -> ActionResult:
    name = _name(ask)
    mode: ShutdownMode = ask.form.get("mode", "warm")  # type: ignore[assignment]
    if mode not in get_args(ShutdownMode):
        raise UsageError(f"There is no shutdown {mode!r}; choose warm, soft or hard.")
    answers = ask.desk.stem.control.shutdown(mode, workers=[name])
    return told_by(name, f"{name} shuts down ({mode}).", answers)


def _name(ask: ActionRequest) -> str:
    return ask.path["worker"]


def _queues(ask: ActionRequest, name: str) -> list[str]:
    for worker in workers(ask.store):
        if worker.id == name:
            return worker.queues
    raise WorkerGone(f"No worker {name} is known; it has stopped, or its heartbeat has expired.")
