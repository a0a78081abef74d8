"""Publishes the metrics of workers to OpenTelemetry, if it is installed.

Metrics are read when they are collected, so unused ones cost nothing. Stem uses the process's global MeterProvider; set one,
or run `opentelemetry-instrument stem worker start`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

Callback = Callable[["CallbackOptions"], Iterable["Observation"]]

GAUGES = {
    "stem.worker.concurrency": ("{task}", "How many tasks the worker runs at a time."),
    "stem.worker.inflight": ("{task}", "Running tasks."),
    "stem.worker.reserved": ("{task}", "Tasks that are claimed and not started."),
    "stem.worker.revoked": ("{task}", "Revoked tasks that the worker knows."),
}
TASKS = "stem.worker.tasks"
COMMANDS = "stem.worker.commands"
REVOKES = "stem.worker.revokes"
COUNTERS = {
    TASKS: ("{task}", "Endings written, by outcome.", "stem.outcome"),
    COMMANDS: ("{command}", "Commands received, by outcome.", "stem.outcome"),
    REVOKES: ("{revoke}", "Revokes and pauses ignored for lack of a signature.", "stem.outcome"),
}


@dataclass(frozen=True, slots=True, eq=False)
class WorkerMetrics:
    """The metrics of one worker: `gauges` by the names above, and `counters`, each by outcome. All are called from the
    collector's thread and must not block."""

    attributes: Mapping[str, str]
    gauges: Mapping[str, Callable[[], int]]
    counters: Mapping[str, Callable[[], Mapping[str, int]]]


def publish(source: WorkerMetrics) -> None:
    """Publish a worker's metrics until `withdraw`."""
    with _lock:
        _sources.append(source)
        _make_instruments()


def withdraw(source: WorkerMetrics) -> None:
    with _lock:
        if source in _sources:
            _sources.remove(source)


_lock = Lock()
_sources: list[WorkerMetrics] = []
_made: list[object] = []  # once per process: an instrument cannot be removed


def _make_instruments() -> None:
    if _made:
        return
    try:
        from opentelemetry.metrics import get_meter
    except ImportError:
        return
    meter = get_meter("stem")
    for name, (unit, description) in GAUGES.items():
        _made.append(meter.create_observable_gauge(name, [_gauge(name)], unit, description))
    for name, (unit, description, by) in COUNTERS.items():
        _made.append(meter.create_observable_counter(name, [_counter(name, by)], unit, description))


def _gauge(name: str) -> Callback:
    def observe(_options: "CallbackOptions") -> "Iterable[Observation]":
        from opentelemetry.metrics import Observation

        return [Observation(each.gauges[name](), dict(each.attributes)) for each in list(_sources)]

    return observe


def _counter(name: str, by: str) -> Callback:
    def observe(_options: "CallbackOptions") -> "Iterable[Observation]":
        from opentelemetry.metrics import Observation

        return [
            Observation(count, {**each.attributes, by: outcome})
            for each in list(_sources)
            for outcome, count in each.counters[name]().items()
        ]

    return observe
