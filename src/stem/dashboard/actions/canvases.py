"""Resume and revoke canvases."""

from stem.core.envelope import check_id
from stem.dashboard.handling import ActionRequest, ActionResult


def resume_canvas(ask: ActionRequest) -> ActionResult:
    """Replay its dead letters; what waits for them goes on."""
    replayed = ask.desk.stem.canvas(check_id(ask.path["canvas_id"])).resume()
    if not replayed:
        return ActionResult("None of its tasks lies among the dead letters; nothing was replayed.", is_partly=True)
    return ActionResult(f"Replayed {_tasks(len(replayed))}; what waits for them goes on.", task_ids=tuple(replayed))


def revoke_canvas(ask: ActionRequest) -> ActionResult:
    return ActionResult(f"Revoked {_tasks(_revoked(ask, is_terminated=False))}; what runs now goes on.")


def terminate_canvas(ask: ActionRequest) -> ActionResult:
    return ActionResult(f"Revoked {_tasks(_revoked(ask, is_terminated=True))}, and stopped those that ran.")


def _revoked(ask: ActionRequest, *, is_terminated: bool) -> int:
    reason = (ask.text("reason") or f"revoked by {ask.user.name}")[:200]
    handle = ask.desk.stem.canvas(check_id(ask.path["canvas_id"]))
    return len(handle.revoke(terminate=is_terminated, reason=reason))


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count:,} tasks"
