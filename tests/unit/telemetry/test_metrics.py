"""Counting by labels, and which names are exposed."""

import pytest

from stem.telemetry import instruments
from stem.telemetry.metrics import Metrics
from stem.telemetry.prometheus import PrometheusText


def test_counts_and_values_add_up_by_labels() -> None:
    metrics = Metrics("shop", "w1")
    metrics.count(instruments.SUCCEEDED, {("mail", "default"): 2})
    metrics.count(instruments.SUCCEEDED, {("mail", "default"): 1, ("mail", "slow"): 1})
    assert metrics.numbers(instruments.SUCCEEDED) == {("mail", "default"): 3, ("mail", "slow"): 1}
    metrics.observe(instruments.WAIT, {("default",): [0.01, 0.02, 4000.0]})
    (found,) = metrics.distributions(instruments.WAIT).values()
    assert (found.count, found.counts[0], found.counts[1], found.counts[-1]) == (3, 1, 1, 1), "a bound is inclusive"


def test_only_metrics_of_the_worker_itself_name_it() -> None:
    metrics = Metrics("shop", "w1")
    assert metrics.attributes(instruments.WAIT, ("mail",)) == {"stem.namespace": "shop", "stem.queue": "mail"}
    assert metrics.attributes(instruments.INFLIGHT, ()) == {"stem.namespace": "shop", "stem.worker.id": "w1"}


def test_prometheus_escapes_hostile_names() -> None:
    metrics = Metrics("shop", "w1")
    metrics.count(instruments.FAILED, {('a"} 1\nforged_total 7', "default"): 1})
    text, content_type = PrometheusText(metrics).render("")
    assert content_type.startswith("text/plain")
    assert "\nforged_total" not in text.decode()


@pytest.mark.parametrize(
    ("value", "is_in"), [("", False), ("http", False), ("http,messaging", True), ("messaging/dup", True)]
)
def test_names_of_the_messaging_conventions_are_opted_in_to(value: str, is_in: bool) -> None:
    names = [each.name for each in instruments.instruments({instruments.OPT_IN: value})]
    assert ("messaging.process.duration" in names) is is_in
    assert "stem.task.duration" in names
