"""Durable steps of a task, the events sent to it, and the one that it waits for."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import msgspec

from stem.client.run.steps import SLEEP, WAIT
from stem.client.send.event_signing import SIGNED, opened
from stem.contracts.steps import EVENT, Step
from stem.core.lifecycle import State
from stem.core.record import TaskRecord, moment
from stem.observe.task import indented

if TYPE_CHECKING:
    from stem.client.store_connection import StoreConnection

MOST_STEPS = 200
BRIEF = 80  # bytes of a result that are shown on one line


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """A step as people read it. `result` is JSON; `until` is when a sleep or a wait is over. `is_refused`: an event that the
    task does not see, because it is not signed with a known key."""

    kind: Literal["step", "event", "sleep", "wait"]
    name: str
    at: datetime
    result: str | None = None
    until: datetime | None = None
    is_refused: bool = False


class StepLogView(msgspec.Struct, frozen=True, kw_only=True):
    """The newest MOST_STEPS of `count` steps, in their order. `waits_for` is the wait whose event has not come."""

    steps: list[StepView]
    count: int
    waits_for: StepView | None = None


def steps(connection: "StoreConnection", record: TaskRecord) -> StepLogView:
    """Return what a task has recorded, and what it waits for now."""
    found = connection.store.steps.all(record.id)
    views = [_view(connection, record.id, step) for step in found]
    shown = views[-MOST_STEPS:]
    return StepLogView(steps=shown, count=len(views), waits_for=_waits_for(record, views, connection.clock()))


def _view(connection: "StoreConnection", task_id: str, step: Step) -> StepView:
    for kind, prefix in (("sleep", SLEEP), ("wait", WAIT)):
        if step.name.startswith(prefix):
            name, until = step.name.removeprefix(prefix), _moment(step.payload)
            return StepView(kind="sleep" if kind == "sleep" else "wait", name=name, at=step.at, until=until)
    if step.name.startswith(EVENT):
        return _event(connection, task_id, step)
    return StepView(kind="step", name=step.name, at=step.at, result=_readable(step.payload))


def _event(connection: "StoreConnection", task_id: str, step: Step) -> StepView:
    keyring, stored_as = connection.keyring, step.name.removeprefix(EVENT)
    name = stored_as.removesuffix(SIGNED) if keyring else stored_as
    data = opened(step.payload, task_id, name, keyring=keyring, namespace=connection.settings.namespace)
    is_refused = data is None or (bool(keyring) and not stored_as.endswith(SIGNED))
    result = None if data is None or is_refused else _readable(data)
    return StepView(kind="event", name=name, at=step.at, result=result, is_refused=is_refused)


def _waits_for(record: TaskRecord, views: Iterable[StepView], now: float) -> StepView | None:
    """A wait is recorded when it begins and stays: it is over if its event has come or its time has passed."""
    if record.is_terminal or record.state is State.RUNNING:
        return None
    views = list(views)
    sent = {view.name for view in views if view.kind == "event" and not view.is_refused}
    for view in reversed(views):
        if view.kind == "wait" and view.name not in sent and (view.until is None or view.until > moment(now)):
            return view
    return None


def _readable(payload: msgspec.Raw) -> str:
    """On one line where that is short."""
    text = bytes(payload)
    return text.decode(errors="replace") if len(text) <= BRIEF else indented(payload)


def _moment(payload: msgspec.Raw) -> datetime | None:
    """None for what is no time, as for a wait of ten thousand years."""
    try:
        return moment(msgspec.json.decode(payload, type=float))
    except (msgspec.MsgspecError, ValueError, OverflowError, OSError):
        return None
