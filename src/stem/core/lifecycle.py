"""The states of a task, every legal transition in one table, and the kinds of events."""

from enum import StrEnum


class State(StrEnum):
    """Where a task is in its life."""

    QUEUED = "queued"
    RUNNING = "running"
    RETRIED = "retried"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class EventKind(StrEnum):
    ENQUEUED = "enqueued"
    SCHEDULED = "scheduled"
    STARTED = "started"
    PROGRESS = "progress"
    HEARTBEAT = "heartbeat"
    RETRIED = "retried"
    THROTTLED = "throttled"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DEAD_LETTERED = "dead-lettered"
    REPLAYED = "replayed"
    REVOKED = "revoked"
    EXPIRED = "expired"
    REQUEUED = "requeued"
    BLOCKED = "blocked"
    RELEASED = "released"
    JOINED = "joined"
    STEP = "step"
    WORKER_STARTED = "worker-started"
    WORKER_STOPPED = "worker-stopped"
    WORKER_SCALED = "worker-scaled"
    WORKER_RECYCLED = "worker-recycled"
    WORKER_PAUSED = "worker-paused"
    WORKER_RESUMED = "worker-resumed"
    OPERATOR_ACTED = "operator-acted"


WAITING = frozenset({State.QUEUED, State.RETRIED})
TERMINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})

# A worker's own doing, of no task: these change no state and have no arrow.
WORKER_KINDS = frozenset(
    {
        EventKind.WORKER_STARTED,
        EventKind.WORKER_STOPPED,
        EventKind.WORKER_SCALED,
        EventKind.WORKER_RECYCLED,
        EventKind.WORKER_PAUSED,
        EventKind.WORKER_RESUMED,
    }
)
# What is noted by hand, and not by the change of a task: events of workers, and what operators did from the dashboard.
NOTED_KINDS = WORKER_KINDS | {EventKind.OPERATOR_ACTED}

ARROWS: dict[EventKind, tuple[frozenset[State], frozenset[State]]] = {
    # event: (from any of, to one of). `enqueued` comes from nothing.
    EventKind.ENQUEUED: (frozenset(), frozenset({State.QUEUED})),
    EventKind.SCHEDULED: (frozenset({State.QUEUED}), frozenset({State.QUEUED})),
    EventKind.STARTED: (WAITING, frozenset({State.RUNNING})),
    EventKind.PROGRESS: (frozenset({State.RUNNING}), frozenset({State.RUNNING})),
    EventKind.HEARTBEAT: (frozenset({State.RUNNING}), frozenset({State.RUNNING})),
    EventKind.RETRIED: (frozenset({State.RUNNING}), frozenset({State.RETRIED})),
    EventKind.THROTTLED: (WAITING, WAITING),
    EventKind.SUCCEEDED: (frozenset({State.RUNNING}), frozenset({State.SUCCEEDED})),
    EventKind.FAILED: (WAITING | {State.RUNNING}, frozenset({State.FAILED})),
    EventKind.DEAD_LETTERED: (frozenset({State.FAILED}), frozenset({State.FAILED})),
    EventKind.REPLAYED: (frozenset({State.FAILED}), frozenset({State.QUEUED})),
    EventKind.REVOKED: (WAITING | {State.RUNNING}, frozenset({State.CANCELLED})),
    EventKind.EXPIRED: (WAITING, frozenset({State.CANCELLED})),
    EventKind.REQUEUED: (WAITING | {State.RUNNING}, WAITING),
    EventKind.BLOCKED: (WAITING | {State.RUNNING}, WAITING),
    EventKind.RELEASED: (WAITING | {State.CANCELLED}, WAITING),
    EventKind.JOINED: (WAITING | {State.CANCELLED}, frozenset({State.SUCCEEDED})),
    EventKind.STEP: (WAITING | {State.RUNNING}, WAITING | {State.RUNNING}),
}


def waiting_state(attempt: int) -> State:
    """Return the state of a waiting task: `queued` for the first, `retried` for a later one."""
    return State.QUEUED if attempt == 0 else State.RETRIED
