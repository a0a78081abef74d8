"""What can be known of a store, without fences and moments: for comparing one store with another."""

from typing import Any

import msgspec

from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, DeadLetter, Delivery
from stem.core.event import Event
from stem.core.record import TaskFilter, TaskRecord
from support.stores.calls import all_events


def told(delivery: Delivery) -> tuple[Any, ...]:
    return (delivery.lease.id, delivery.name, delivery.queue, delivery.attempt, delivery.deaths, delivery.envelope)


def epitaph(letter: DeadLetter) -> tuple[Any, ...]:
    envelope = msgspec.structs.replace(letter.envelope, enqueued_at=letter.dead_at.min)
    meta = without_moments(letter.meta)
    return (letter.name, letter.queue, letter.attempt, letter.reason, letter.error, meta, letter.worker, envelope)


def known(record: TaskRecord) -> dict[str, Any]:
    """Of moments only the presence."""
    facts = {field: getattr(record, field) for field in record.__struct_fields__}
    for apart in ("fence", "updated_at", "enqueued_at", "heartbeat_at"):
        del facts[apart]
    facts |= {moment: facts[moment] is not None for moment in ("started_at", "finished_at")}
    facts["meta"] = without_moments(record.meta)
    return facts | {"payload": None if record.payload is None else bytes(record.payload)}


def without_moments(meta: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in meta.items() if key not in ("heartbeatAt", "lastReplayAt")}


def fact(event: Event) -> tuple[Any, ...]:
    return (event.kind, event.attempt, event.worker, event.queue, event.name, event.started_at is not None, event.data)


def lives(store: Store) -> dict[str, list[Event]]:
    """The log, task by task; what workers note of themselves is no task's."""
    by_task: dict[str, list[Event]] = {}
    for event in all_events(store):
        if event.task_id:
            by_task.setdefault(event.task_id, []).append(event)
    return by_task


def snapshot(store: Store) -> dict[str, Any]:
    """All of it at one moment. Ready and delayed are one number: which it is changes by itself."""
    records = store.results.page(TaskFilter(), limit=10_000).items
    letters = store.deadletters.page(DeadFilter(), limit=10_000).items
    return {
        "records": {record.id: known(record) for record in records},
        "letters": {letter.id: epitaph(letter) for letter in letters},
        "events": {id: [fact(event) for event in events] for id, events in lives(store).items()},
        "depth": {q: (d.ready + d.delayed, d.running, d.dead) for q, d in store.broker.depth().items()},
    }
