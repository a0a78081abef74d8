"""Queues, and the tasks that wait in one."""

from typing import Any

from stem.core.envelope import check_queue
from stem.dashboard.handling import PageRequest
from stem.observe.queues import queues
from stem.observe.rates import period
from stem.observe.task import indented

SECONDS = 3600
PEEKED = 50


def queues_page(ask: PageRequest) -> dict[str, Any]:
    span = period(ask.store.upkeep.now(), SECONDS)
    rows = ask.desk.rows.read(ask.store, span)
    with ask.desk.revokes() as revokes:
        found = queues(ask.store, revokes, rows, span)
    return {"title": "Queues", "queues": found}


def queue_page(ask: PageRequest) -> dict[str, Any]:
    name = check_queue(ask.path["queue"])
    span = period(ask.store.upkeep.now(), SECONDS)
    rows = ask.desk.rows.read(ask.store, span)
    with ask.desk.revokes() as revokes:
        found = {view.name: view for view in queues(ask.store, revokes, rows, span)}
    return {
        "title": name,
        "name": name,
        "queue": found.get(name),
        "depth": ask.store.broker.depth([name])[name],
        "waiting": ask.store.broker.peek(name, limit=PEEKED),
        "most": PEEKED,
        "indented": indented,
    }
