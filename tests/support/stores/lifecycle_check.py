"""Check that what the event log tells of a task is a legal life."""

from collections.abc import Iterable

from stem.core.event import Event
from stem.core.lifecycle import ARROWS, EventKind, State, waiting_state


def walk(events: Iterable[Event]) -> State | None:
    """The state that a task's events lead to; AssertionError at the first arrow that the table does not have."""
    state: State | None = None
    for event in events:
        sources, targets = ARROWS[event.kind]
        legal = state is None if event.kind is EventKind.ENQUEUED else state in sources
        assert legal, f"{event.kind} of {event.task_id} came from {state}"
        state = state if event.kind is EventKind.STEP else _target(event, targets)
    return state


def _target(event: Event, targets: frozenset[State]) -> State:
    if len(targets) == 1:
        (target,) = targets
        return target
    target = waiting_state(event.attempt)
    assert target in targets
    return target
