"""Search tasks, and prepare an action on all that match."""

from typing import Any

from stem.core.errors import UsageError
from stem.core.lifecycle import State
from stem.dashboard.handling import PageRequest
from stem.dashboard.searching import given_filters, search_of
from stem.observe.tasks import MOST_MATCHES, matching, search
from stem.observe.workers import workers

PAGE = 50
VERBS = {"replay": "Replay", "revoke": "Revoke", "terminate": "Revoke and terminate"}
SAMPLE = 10


def tasks_page(ask: PageRequest) -> dict[str, Any]:
    where = search_of(ask.query, ask.store.upkeep.now())
    found = search(ask.store, where, limit=PAGE, cursor=ask.text("cursor"))
    beats = workers(ask.store)
    return {
        "title": "Tasks",
        "found": found,
        "filters": given_filters(ask.query),
        "states": list(State),
        "names": sorted({name for beat in beats for name in beat.tasks}),
        "queues": sorted({queue for beat in beats for queue in beat.queues}),
        "verbs": VERBS,
        "is_first": ask.text("cursor") is None,
    }


def bulk_page(ask: PageRequest) -> dict[str, Any]:
    """How many tasks match, and what would be done to them. Tasks that are enqueued later do not match."""
    verb = ask.query.get("verb", "")
    if verb not in VERBS:
        raise UsageError(f"There is no action {verb!r}; choose one of {', '.join(VERBS)}.")
    now = ask.store.upkeep.now()
    given = given_filters(ask.query)
    where = search_of(given, now)
    until = where.until.isoformat() if where.until is not None else _iso(now)
    fixed = {**given, "until": until, **({"since": where.since.isoformat()} if where.since is not None else {})}
    found = matching(ask.store, search_of(fixed, now))
    affected = [record for record in found.records if applies(verb, record.state)]
    return {
        "title": f"{VERBS[verb]} all that match",
        "verb": verb,
        "label": VERBS[verb],
        "filters": given,
        "fixed": fixed,
        "found": found,
        "affected": affected,
        "sample": affected[:SAMPLE],
        "most": MOST_MATCHES,
    }


def applies(verb: str, state: State) -> bool:
    """Only dead letters can be replayed, and only what has not ended can be revoked."""
    if verb == "replay":
        return state is State.FAILED
    return state in (State.QUEUED, State.RETRIED, State.RUNNING)


def _iso(now: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(now, UTC).isoformat()
