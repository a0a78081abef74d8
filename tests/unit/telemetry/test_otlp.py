"""Which variables ask for OTLP."""

import pytest

from stem.telemetry.otlp import is_wanted

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("variables", "metrics", "traces"),
    [
        ({}, False, False),
        (ENDPOINT, True, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, False, True),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, True, False),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, True, False),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, False, False),
    ],
)
def test_variables_say_what_is_sent(variables: dict[str, str], metrics: bool, traces: bool) -> None:
    assert (is_wanted("METRICS", variables), is_wanted("TRACES", variables)) == (metrics, traces)
