"""Workers by their heartbeats, and one worker as it answers itself."""

from typing import Any

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
    histories = history_by(read_rows(ask.store, span), span, ("worker",))
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
        return {"title": name, "worker": found, "stats": None, "problem": str(error)}
    is_told = reply is not None and reply.status == "ok"
    problem = "" if is_told else reply.error.message if reply is not None and reply.error else "It did not answer."
    return {"title": name, "worker": found, "stats": reply.payload if reply and is_told else None, "problem": problem}
