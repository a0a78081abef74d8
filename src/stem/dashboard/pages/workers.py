"""Workers by their heartbeats, and one worker as it answers itself."""

from typing import Any

import msgspec

from stem.core.control import Reply
from stem.core.errors import StemError, UsageError
from stem.dashboard.handling import PageRequest
from stem.observe.rates import history_by, period, read_rows
from stem.observe.workers import workers

SECONDS = 3600
ANSWER_SECONDS = 3.0


class WorkerGone(UsageError):
    """No worker of that name has a heartbeat."""

    exit_code = 1


def workers_page(ask: PageRequest) -> dict[str, Any]:
    span = period(ask.store.upkeep.now(), SECONDS)
    histories = history_by(read_rows(ask.store, span, ("worker",)), span, ("worker",))
    return {"title": "Workers", "workers": workers(ask.store), "histories": histories}


def worker_page(ask: PageRequest) -> dict[str, Any]:
    name = ask.path["worker"]
    found = next((each for each in workers(ask.store) if each.id == name), None)
    if found is None:
        raise WorkerGone(f"No worker {name} is known; it has stopped, or its heartbeat has expired.")
    try:
        answers = ask.desk.stem.control.stats(include_tasks=True, workers=[name], timeout=ANSWER_SECONDS)
        reply = answers.replies.get(name)
    except StemError as error:
        return {"title": name, "worker": found, "stats": None, "revoked_ids": set(), "problem": str(error)}
    stats, problem = _told(reply)
    revoked = {each.id for each in stats.active if each.is_revoked} if stats is not None else set()
    return {"title": name, "worker": found, "stats": stats, "revoked_ids": revoked, "problem": problem}


class RunningTask(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    task: str
    queue: str
    run_seconds: float
    is_revoked: bool = False


class IsolateRun(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    task: str
    run_seconds: float


class IsolateView(msgspec.Struct, frozen=True):
    """One child process of a worker, and what it does."""

    pid: int
    kind: str
    state: str
    running: list[IsolateRun] = []
    reserved: int = 0
    finished: int = 0


class ScaleLimits(msgspec.Struct, frozen=True):
    enabled: bool = False
    min: int | None = None
    max: int | None = None


class WorkerStats(msgspec.Struct, frozen=True, rename="camel"):
    """What the page shows of a worker's answer to `stats`."""

    inflight: int = 0
    concurrency: int = 0
    reserved: int = 0
    isolates: list[int] = []
    isolate_states: list[IsolateView] = []  # none from a worker of an earlier version
    paused_queues: list[str] = []
    active: list[RunningTask] = []
    autoscale: ScaleLimits = ScaleLimits()


def _told(reply: Reply | None) -> tuple[WorkerStats | None, str]:
    """The answer, or why there is none. Without keys anybody who can write to the store may answer anything."""
    if reply is None or reply.status != "ok":
        return None, reply.error.message if reply is not None and reply.error else "It did not answer."
    try:
        return msgspec.convert(reply.payload, WorkerStats), ""
    except msgspec.ValidationError as error:
        return None, f"Its answer cannot be read ({error})."
