"""The columns of each table that Spark reads from Stem, as Spark schemas. Their order is part of the contract."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

EVENTS = (
    "offset string, kind string, at timestamp, task_id string, name string, queue string, attempt int, worker string, "
    "tenant string, enqueued_at timestamp, started_at timestamp, error_type string, error_message string, data string"
)

TASKS = (
    "id string, name string, queue string, state string, attempt int, priority int, worker string, error_type string, "
    "error_message string, enqueued_at timestamp, started_at timestamp, finished_at timestamp, heartbeat_at timestamp, "
    "updated_at timestamp, meta string, payload string"
)

# One row per attempt, derived from the event that ended it. Only first attempts have `wait_seconds`: retries wait on purpose.
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

# `state` is that of the canvas as a whole; `succeeded` and `failed` count its tasks.
CANVASES = (
    "id string, name string, state string, tasks int, succeeded int, failed int, submitted_at timestamp, "
    "finished_at timestamp, shape string"
)

# By the value of `option("table", …)`.
SHAPES = {
    "events": EVENTS,
    "tasks": TASKS,
    "attempts": ATTEMPTS,
    "dead_letters": DEAD_LETTERS,
    "heartbeats": HEARTBEATS,
    "schedules": SCHEDULES,
    "canvases": CANVASES,
}

# Aliases that need no quoting, for columns whose names are SQL keywords.
ALIASES = {"events": {"event_offset": "offset", "happened_at": "at"}, "attempts": {"event_offset": "offset"}}


def types(shape: str) -> dict[str, str]:
    """The columns with their types, in order."""
    return dict(column.split() for column in shape.split(", "))


def names(shape: str) -> list[str]:
    """The names of the columns, in order."""
    return list(types(shape))


def arrow_schema(shape: str) -> "pa.Schema":
    """The Arrow schema of a Spark schema."""
    import pyarrow as pa

    kinds: Mapping[str, Callable[[], pa.DataType]] = {
        "string": pa.string,
        "int": pa.int32,
        "bigint": pa.int64,
        "double": pa.float64,
        "binary": pa.binary,
        "date": pa.date32,
        "timestamp": lambda: pa.timestamp("us", tz="UTC"),
        "map<int,bigint>": lambda: pa.map_(pa.int32(), pa.int64()),
    }
    columns = (column.split() for column in shape.split(", "))
    return pa.schema([(name, kinds[kind]()) for name, kind in columns])
