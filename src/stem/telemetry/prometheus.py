"""Metrics as Prometheus reads them, over its own client library."""

from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from stem.telemetry.instruments import NAMESPACE, WORKER, Instrument, instruments
from stem.telemetry.metrics import Metrics

_SUFFIXES = {"s": "_seconds"}


class PrometheusText:
    """Renders the metrics of one process, together with its memory, CPU time and open files."""

    def __init__(self, metrics: Metrics) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Collected(metrics))
        ProcessCollector(registry=self._registry)

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return the text, and its content type, in the form that the reader accepts."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


def prometheus_name(name: str) -> str:
    return name.replace(".", "_")


class _Collected(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._instruments = instruments()

    def collect(self) -> Iterator[Metric]:
        return (family for each in self._instruments if (family := self._family(each)).samples)

    def describe(self) -> Iterable[Metric]:
        return ()  # else registering would read everything once

    def _family(self, instrument: Instrument) -> Metric:
        source = (NAMESPACE, WORKER) if instrument.of_worker else (NAMESPACE,)
        names = [*source, *instrument.fixed, *instrument.labels]
        name, labels = (
            prometheus_name(instrument.name) + _SUFFIXES.get(instrument.unit, ""),
            [prometheus_name(each) for each in names],
        )
        if instrument.kind == "histogram":
            histogram = HistogramMetricFamily(name, instrument.help, labels=labels)
            for key, found in self._metrics.distributions(instrument).items():
                values = self._metrics.attributes(instrument, key)
                bounds = [*map(str, instrument.buckets), "+Inf"]
                buckets = list(zip(bounds, accumulate(found.counts), strict=True))
                histogram.add_metric([values[each] for each in names], buckets, found.total)
            return histogram
        kind = CounterMetricFamily if instrument.kind == "counter" else GaugeMetricFamily
        family = kind(name, instrument.help, labels=labels)
        for key, number in self._metrics.numbers(instrument).items():
            values = self._metrics.attributes(instrument, key)
            family.add_metric([values[each] for each in names], number)
        return family
