"""Publishes metrics to OpenTelemetry's meter provider, where the process has one.

Nothing of it is imported here before the process has imported it itself, or `otlp` has. Gauges and counters are read when
they are collected. OpenTelemetry cannot read histograms like that: `otlp` adds them to what it exports, and any other
provider is told each value, which costs about 10 µs.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

from stem.telemetry.instruments import Instrument, instruments
from stem.telemetry.metrics import Labels, Metrics

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

_API = "opentelemetry.metrics"


def publish(metrics: Metrics) -> None:
    """Publish these metrics until `withdraw`."""
    with _lock:
        _published.append(metrics)
    metrics.values_recorded = lambda instrument, values: _record(metrics, instrument, values)
    follow_provider()


def withdraw(metrics: Metrics) -> None:
    metrics.values_recorded = None
    with _lock:
        if metrics in _published:
            _published.remove(metrics)


def published() -> list[Metrics]:
    with _lock:
        return list(_published)


def follow_provider() -> None:
    """Make the instruments once the process has imported OpenTelemetry's metrics. Cheap, so call it again and again."""
    if _API in sys.modules and not _made:
        with _lock:
            if not _made:
                _make_instruments()


def has_provider() -> bool:
    """Whether the process has a meter provider that collects."""
    if _API not in sys.modules:
        return False
    from opentelemetry.metrics import get_meter_provider

    return is_real(get_meter_provider())


def is_real(provider: object) -> bool:
    """Whether it is more than a stand-in of the API, which collects nothing."""
    return not type(provider).__module__.startswith(("opentelemetry.metrics", "opentelemetry.trace"))


_lock = Lock()
_published: list[Metrics] = []
_made: list[tuple[Instrument, Any]] = []  # once per process: an instrument cannot be removed
exports_histograms = False  # set by `otlp`: then values need not be recorded one by one


def _make_instruments() -> None:
    try:
        from opentelemetry.metrics import get_meter
    except ImportError:
        return
    meter = get_meter("stem")
    for each in instruments():
        if each.kind == "gauge":
            made: Any = meter.create_observable_gauge(each.name, [_observer(each)], each.unit, each.help)
        elif each.kind == "counter":
            made = meter.create_observable_counter(each.name, [_observer(each)], each.unit, each.help)
        else:
            made = meter.create_histogram(
                each.name, each.unit, each.help, explicit_bucket_boundaries_advisory=list(each.buckets)
            )
        _made.append((each, made))


def _observer(instrument: Instrument) -> "Callable[[CallbackOptions], Iterable[Observation]]":
    def observe(_options: "CallbackOptions") -> "Iterable[Observation]":
        from opentelemetry.metrics import Observation

        return [
            Observation(number, metrics.attributes(instrument, labels))
            for metrics in published()
            for labels, number in metrics.numbers(instrument).items()
        ]

    return observe


def _record(metrics: Metrics, instrument: Instrument, values: Mapping[Labels, list[float]]) -> None:
    if exports_histograms or not has_provider():
        return
    follow_provider()
    for shown, made in _made:
        if instrument.name in (shown.name, shown.shows):
            for labels, found in values.items():
                attributes = metrics.attributes(shown, labels)
                for value in found:
                    made.record(value, attributes)
