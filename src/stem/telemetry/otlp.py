"""Sends metrics and traces to a collector as the OTEL_… variables say, without code. Imports OpenTelemetry only for that."""

import logging
import os
import time
from collections.abc import Callable, Mapping
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal

from stem.telemetry import otel_metrics
from stem.telemetry.instruments import Instrument, instruments
from stem.telemetry.tracing import FLUSH_SECONDS

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricExporter, MetricsData
    from opentelemetry.sdk.resources import Resource

log = logging.getLogger("stem.telemetry")

Signal = Literal["METRICS", "TRACES"]

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
SPAN_DELAY_MILLISECONDS = 1000  # unless OTEL_BSP_SCHEDULE_DELAY says otherwise: an isolate that is killed loses no more


def is_wanted(signal: Signal, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment asks for this signal by OTLP."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get(f"OTEL_{signal}_EXPORTER", "").strip().lower()
    if exporter:
        return exporter == "otlp"
    return bool(environment.get(ENDPOINT) or environment.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"))


def set_up(*signals: Signal, service: str, instance: str) -> Callable[[], None]:
    """Set this process's providers for the signals that are wanted and have none yet; returns what ends them.

    `service` and `instance` name the process, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES do.
    """
    ends: list[Callable[[], object]] = []
    for signal in filter(is_wanted, signals):
        if not _is_supported(signal):
            continue
        try:
            ends.append(
                _set_up_metrics(service, instance) if signal == "METRICS" else _set_up_traces(service, instance)
            )
        except ImportError as error:
            log.warning("otel.skipped: %s is missing; pip install 'stem-tasks[otel]'", error.name)
    return lambda: _end(ends)


def preload() -> None:
    """Import what `set_up` will need for traces, so that forked processes share it."""
    if is_wanted("TRACES"):
        try:
            import opentelemetry.exporter.otlp.proto.http.trace_exporter
            import opentelemetry.sdk.trace.export  # noqa: F401
        except ImportError:
            return  # whoever sets it up says so


def _is_supported(signal: Signal) -> bool:
    named = f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"
    protocol = os.environ.get(named) or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    if protocol != "http/protobuf":
        log.warning("otel.skipped: Stem sends http/protobuf and not %s; change %s", protocol, named)
    return protocol == "http/protobuf"


def _set_up_metrics(service: str, instance: str) -> Callable[[], object]:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.metrics import get_meter_provider, set_meter_provider
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    if otel_metrics.is_real(get_meter_provider()):
        return _nothing  # as under opentelemetry-instrument
    reader = PeriodicExportingMetricReader(_with_histograms(OTLPMetricExporter()))
    provider = MeterProvider([reader], _resource(service, instance), shutdown_on_exit=False)
    set_meter_provider(provider)
    otel_metrics.exports_histograms = True
    return provider.shutdown


def _set_up_traces(service: str, instance: str) -> Callable[[], object]:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import get_tracer_provider, set_tracer_provider

    if otel_metrics.is_real(get_tracer_provider()):
        return _nothing
    provider = TracerProvider(resource=_resource(service, instance), shutdown_on_exit=False)
    delay = int(os.environ.get("OTEL_BSP_SCHEDULE_DELAY") or SPAN_DELAY_MILLISECONDS)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=delay))
    set_tracer_provider(provider)
    return provider.shutdown


def _resource(service: str, instance: str) -> "Resource":
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    given = OTELResourceDetector().detect().attributes
    own = {"service.name": service, "service.instance.id": instance}
    return Resource.create({key: text for key, text in own.items() if key not in given})


def _with_histograms(exporter: "MetricExporter") -> "MetricExporter":
    """Add the histograms to each export. Recording every value would cost more than a small task does."""
    export = exporter.export

    def export_all(metrics_data: "MetricsData", *args: Any, **kwargs: Any) -> Any:
        for resource in metrics_data.resource_metrics:
            for scope in resource.scope_metrics:
                if scope.scope.name == "stem":
                    scope.metrics.extend(_histograms())  # type: ignore[attr-defined]
        return export(metrics_data, *args, **kwargs)

    exporter.export = export_all  # type: ignore[method-assign]
    return exporter


def _histograms() -> "list[Metric]":
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Histogram, Metric

    found = []
    for each in instruments():
        points = _points(each) if each.kind == "histogram" else []
        if points:
            data = Histogram(points, AggregationTemporality.CUMULATIVE)
            found.append(Metric(each.name, each.help, each.unit, data))
    return found


def _points(instrument: Instrument) -> list[Any]:
    from opentelemetry.sdk.metrics.export import HistogramDataPoint

    now = time.time_ns()
    return [
        HistogramDataPoint(
            attributes=metrics.attributes(instrument, labels),
            start_time_unix_nano=int(metrics.since * 1e9),
            time_unix_nano=now,
            count=each.count,
            sum=each.total,
            bucket_counts=each.counts,
            explicit_bounds=instrument.buckets,
            min=None,  # type: ignore[arg-type]  # not kept
            max=None,  # type: ignore[arg-type]
        )
        for metrics in otel_metrics.published()
        for labels, each in metrics.distributions(instrument).items()
    ]


def _end(ends: list[Callable[[], object]]) -> None:
    """Send what is left. In a thread, because a collector that is away keeps its client busy for longer than we wait."""
    thread = Thread(target=lambda: [end() for end in ends], name="otel-flush", daemon=True)
    if ends:
        thread.start()
        thread.join(FLUSH_SECONDS)


def _nothing() -> None: ...
