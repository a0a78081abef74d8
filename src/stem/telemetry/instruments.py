"""The instruments of Stem, each declared once. OpenTelemetry uses these names; Prometheus gets them by its own rules."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Kind = Literal["gauge", "counter", "histogram"]

NAMESPACE, WORKER = "stem.namespace", "stem.worker.id"
TASK, QUEUE, STATE, OUTCOME = "stem.task.name", "stem.queue", "stem.queue.state", "stem.outcome"
CALL, ERROR = "stem.store.call", "error.type"

OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN"

_RUN_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
_WAIT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_CALL_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True, eq=False)
class Instrument:
    """`labels` name the attributes of each series, besides those of the source; `of_worker` adds the worker's name to them.
    A copy under another name has `shows`, the instrument that it repeats, and `fixed` attributes."""

    name: str
    kind: Kind
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    of_worker: bool = False
    shows: str = ""
    fixed: Mapping[str, str] = field(default_factory=dict)


CONCURRENCY = Instrument(
    "stem.worker.concurrency", "gauge", "{task}", "How many tasks the worker runs at a time.", of_worker=True
)
INFLIGHT = Instrument("stem.worker.inflight", "gauge", "{task}", "Running tasks.", of_worker=True)
RESERVED = Instrument(
    "stem.worker.reserved", "gauge", "{task}", "Tasks that are claimed and not started.", of_worker=True
)
REVOKED_KNOWN = Instrument(
    "stem.worker.revoked", "gauge", "{task}", "Revoked tasks that the worker knows.", of_worker=True
)
ENDINGS = Instrument(
    "stem.worker.tasks", "counter", "{task}", "Endings written, by outcome.", (OUTCOME,), of_worker=True
)
COMMANDS = Instrument(
    "stem.worker.commands", "counter", "{command}", "Commands received, by outcome.", (OUTCOME,), of_worker=True
)
IGNORED_REVOKES = Instrument(
    "stem.worker.revokes",
    "counter",
    "{revoke}",
    "Revokes and pauses ignored for lack of a signature.",
    (OUTCOME,),
    of_worker=True,
)
STARTED = Instrument("stem.tasks.started", "counter", "{task}", "Attempts that began to run.", (TASK, QUEUE))
SUCCEEDED = Instrument("stem.tasks.succeeded", "counter", "{task}", "Tasks that succeeded.", (TASK, QUEUE))
FAILED = Instrument("stem.tasks.failed", "counter", "{task}", "Tasks that became dead letters.", (TASK, QUEUE))
RETRIED = Instrument("stem.tasks.retried", "counter", "{task}", "Attempts that failed and are repeated.", (TASK, QUEUE))
REVOKED = Instrument("stem.tasks.revoked", "counter", "{task}", "Tasks that were cancelled.", (TASK, QUEUE))
THROTTLED = Instrument("stem.tasks.throttled", "counter", "{task}", "Starts put off by a limit.", (TASK, QUEUE))
DURATION = Instrument(
    "stem.task.duration", "histogram", "s", "How long attempts ran.", (TASK, QUEUE), buckets=_RUN_BUCKETS
)
WAIT = Instrument(
    "stem.task.wait", "histogram", "s", "How long tasks were due before they first ran.", (QUEUE,), _WAIT_BUCKETS
)
DEPTH = Instrument("stem.queue.depth", "gauge", "{task}", "Tasks in a queue, by state.", (QUEUE, STATE))
DRIFT = Instrument("stem.schedule.drift", "gauge", "s", "How late the latest scheduled task was enqueued.")
FIRED = Instrument("stem.schedule.fired", "counter", "{task}", "Tasks enqueued by this scheduler.")
LEADER = Instrument("stem.schedule.leader", "gauge", "1", "1 in the scheduler that leads.")
CALL_DURATION = Instrument(
    "stem.store.call.duration", "histogram", "s", "How long calls of the store took.", (CALL,), _CALL_BUCKETS
)
CALL_ERRORS = Instrument("stem.store.call.errors", "counter", "{call}", "Failed calls of the store.", (CALL, ERROR))

INSTRUMENTS = (
    *(CONCURRENCY, INFLIGHT, RESERVED, REVOKED_KNOWN, ENDINGS, COMMANDS, IGNORED_REVOKES),
    *(STARTED, SUCCEEDED, FAILED, RETRIED, REVOKED, THROTTLED, DURATION, WAIT, DEPTH),
    *(DRIFT, FIRED, LEADER, CALL_DURATION, CALL_ERRORS),
)

# The names of the semantic conventions for messaging, which repeat some of the above.
_MESSAGING: tuple[tuple[Instrument, str, dict[str, str]], ...] = (
    (DURATION, "messaging.process.duration", {"messaging.operation.name": "process"}),
    (STARTED, "messaging.client.consumed.messages", {"messaging.operation.name": "process"}),
    (CALL_DURATION, "messaging.client.operation.duration", {}),
)
_MESSAGING_LABELS = {QUEUE: "messaging.destination.name", CALL: "messaging.operation.name"}


def instruments(environment: Mapping[str, str] = os.environ) -> tuple[Instrument, ...]:
    """Return all instruments; those of the messaging conventions if the environment opts in to them."""
    if not has_opted_in(environment):
        return INSTRUMENTS
    return (*INSTRUMENTS, *(_as_messaging(*each) for each in _MESSAGING))


def has_opted_in(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether names of the messaging conventions are wanted."""
    return bool({"messaging", "messaging/dup"} & {each.strip() for each in environment.get(OPT_IN, "").split(",")})


def _as_messaging(shown: Instrument, name: str, fixed: dict[str, str]) -> Instrument:
    labels = tuple(_MESSAGING_LABELS.get(label, label) for label in shown.labels)
    return replace(shown, name=name, labels=labels, shows=shown.name, fixed={"messaging.system": "stem", **fixed})
