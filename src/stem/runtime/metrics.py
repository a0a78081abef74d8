"""What workers of this process say of themselves to OpenTelemetry, where that is installed; nothing anywhere else.

Measured when somebody collects: a worker pays nothing for a metric that nobody reads. Where to they are exported is the
business of whoever runs the process: its own MeterProvider, or `opentelemetry-instrument stem worker start`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

Callback = Callable[["CallbackOptions"], Iterable["Observation"]]

GAUGES = {
    "stem.worker.concurrency": ("{task}", "How many tasks the worker runs at a time, as it is set now."),
    "stem.worker.inflight": ("{task}", "Tasks that run."),
    "stem.worker.reserved": ("{task}", "Tasks that the worker has claimed, and that have not begun."),
    "stem.worker.revoked": ("{task}", "Tasks that the worker knows to be revoked."),
}
TASKS = "stem.worker.tasks"
COMMANDS = "stem.worker.commands"
REVOKES = "stem.worker.revokes"
COUNTERS = {
    TASKS: ("{task}", "Endings that the worker has written, by what became of the task.", "stem.outcome"),
    COMMANDS: ("{command}", "Commands that reached the worker, by what became of them.", "stem.outcome"),
    REVOKES: ("{revoke}", "Revokes and pauses that were not heeded, for want of a signature.", "stem.outcome"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One worker: `gauges` by the names above, and `counters`, each by outcome. All are called from the collector's
    thread, and must not block."""

    attributes: Mapping[str, str]
    gauges: Mapping[str, Callable[[], int]]
    counters: Mapping[str, Callable[[], Mapping[str, int]]]


def publish(source: Source) -> None:
    """Until `withdraw`."""
    with _lock:
        _sources.append(source)
        _make_instruments()


def withdraw(source: Source) -> None:
    with _lock:
        if source in _sources:
            _sources.remove(source)


_lock = Lock()
_sources: list[Source] = []
_made: list[object] = []  # once a process: an instrument cannot be taken back


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
