"""Pause, resume and purge queues."""

from stem.core.envelope import check_queue
from stem.dashboard.actions.replies import told
from stem.dashboard.handling import ActionRequest, ActionResult


def pause_queue(ask: ActionRequest) -> ActionResult:
    paused = ask.desk.stem.control.pause(check_queue(ask.path["queue"]))
    return told(f"{ask.path['queue']} is paused; running tasks go on.", paused.answers)


def resume_queue(ask: ActionRequest) -> ActionResult:
    resumed = ask.desk.stem.control.resume(check_queue(ask.path["queue"]))
    return told(f"{ask.path['queue']} goes on.", resumed.answers)


def purge_queue(ask: ActionRequest) -> ActionResult:
    count = ask.store.broker.purge(check_queue(ask.path["queue"]))
    return ActionResult(f"Cancelled {count:,} waiting in {ask.path['queue']}.")
