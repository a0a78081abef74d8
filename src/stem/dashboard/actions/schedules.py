"""Enable, disable and run schedules."""

from stem.dashboard.handling import ActionRequest, ActionResult
from stem.scheduler.entries import EntryWriter, run_now


def enable_schedule(ask: ActionRequest) -> ActionResult:
    _switch(ask, is_enabled=True)
    return ActionResult(f"{ask.path['schedule_id']} is on; its next run is counted from now.")


def disable_schedule(ask: ActionRequest) -> ActionResult:
    _switch(ask, is_enabled=False)
    return ActionResult(f"{ask.path['schedule_id']} enqueues nothing until it is enabled.")


def run_schedule(ask: ActionRequest) -> ActionResult:
    task_id = run_now(ask.desk.stem, ask.path["schedule_id"])
    return ActionResult(f"{ask.path['schedule_id']} was enqueued once, outside its calendar.", task_ids=(task_id,))


def _switch(ask: ActionRequest, *, is_enabled: bool) -> None:
    writer = EntryWriter.of(ask.store, ask.desk.stem.settings)
    writer.change(ask.path["schedule_id"], is_enabled=is_enabled, note=f"by {ask.user.name}")
