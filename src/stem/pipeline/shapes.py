"""The columns of everything that Spark reads of Stem, as Spark writes schemas; the order is part of the promise."""

EVENTS = (
    "offset string, kind string, at timestamp, task_id string, name string, queue string, attempt int, worker string, "
    "tenant string, enqueued_at timestamp, started_at timestamp, error_type string, error_message string, data string"
)

TASKS = (
    "id string, name string, queue string, state string, attempt int, priority int, worker string, error_type string, "
    "error_message string, enqueued_at timestamp, started_at timestamp, finished_at timestamp, heartbeat_at timestamp, "
    "updated_at timestamp, meta string, payload string"
)

# One row an attempt, made of the event that ended it. `wait_seconds` is of first attempts only: later ones wait because
# they were told to.
ATTEMPTS = (
    "offset string, task_id string, name string, queue string, tenant string, worker string, attempt int, "
    "outcome string, reason string, error_type string, error_message string, fingerprint string, "
    "enqueued_at timestamp, started_at timestamp, finished_at timestamp, wait_seconds double, run_seconds double"
)

DEAD_LETTERS = (
    "id string, name string, queue string, attempt int, reason string, error_type string, error_message string, "
    "fingerprint string, args string, meta string, dead_at timestamp"
)

HEARTBEATS = "worker string, namespace string, host string, pid bigint, concurrency int, in_flight int, at timestamp, data string"

SCHEDULES = (
    "id string, name string, spec string, args string, queue string, time_zone string, jitter_seconds double, "
    "is_enabled boolean, version bigint, last_run_at timestamp, next_run_at timestamp"
)

# By the name that `option("table", …)` takes.
SHAPES = {
    "events": EVENTS,
    "tasks": TASKS,
    "attempts": ATTEMPTS,
    "dead_letters": DEAD_LETTERS,
    "heartbeats": HEARTBEATS,
    "schedules": SCHEDULES,
}

# Names that need no quoting in any SQL, for columns whose own are words of it.
ALIASES = {"events": {"event_offset": "offset", "happened_at": "at"}, "attempts": {"event_offset": "offset"}}


def types(shape: str) -> dict[str, str]:
    """Its columns, in order, each with its type."""
    return dict(column.split() for column in shape.split(", "))


def names(shape: str) -> list[str]:
    """Its columns, in order."""
    return list(types(shape))
