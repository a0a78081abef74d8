"""What a worker tells OpenTelemetry, read with its own SDK."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from stem.control.caller import Caller
from support.until import until
from support.workers.processes import TESTS, desk, worker_here

PLAIN = "support.worker_apps.plain:app"

Points = dict[str, dict[str | None, int | float]]


@pytest.fixture(scope="module")
def reader() -> InMemoryMetricReader:
    """The process has one provider for good."""
    found = InMemoryMetricReader()
    metrics.set_meter_provider(MeterProvider([found]))
    return found


def test_a_workers_concurrency_and_what_it_has_done_are_metrics_while_it_runs(
    reader: InMemoryMetricReader, tmp_path: Path, namespace: str
) -> None:
    url = f"sqlite:///{tmp_path}/stem.db"
    with desk(url, namespace) as client:
        with worker_here(url, namespace, PLAIN, name="w1", concurrency=2) as worker:
            assert points(reader)["stem.worker.concurrency"] == {None: 2}
            client.call("echo", value=1)
            until(lambda: points(reader).get("stem.worker.tasks") == {"succeeded": 1})
            changes = {"enabled": True, "min": 3, "max": 4, "tick": "50ms"}
            assert (
                Caller(client.app.store).ask("autoscale-config", changes, workers=["w1"], timeout_seconds=20).is_all_ok
            )
            until(lambda: points(reader)["stem.worker.concurrency"] == {None: 3})
            until(lambda: points(reader)["stem.worker.commands"] == {"ok": 1})
            until(lambda: points(reader)["stem.worker.inflight"] == points(reader)["stem.worker.reserved"] == {None: 0})
            with worker_here(url, namespace, PLAIN, name="w2", concurrency=1):
                assert set(attributes(reader, "stem.worker.concurrency")) == {("w1", namespace), ("w2", namespace)}
            worker.close()
        assert points(reader) == {}, "a worker that has ended is still told of"


def test_without_opentelemetry_a_worker_runs_as_ever(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from stem import Stem, Worker\n"
        f"app = Stem('sqlite:///{tmp_path}/stem.db')\n"
        "@app.task\n"
        "def answer() -> int:\n    return 42\n"
        "with Worker(app, in_process=True):\n    print(answer.enqueue().get(20))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=TESTS, timeout=60)
    assert done.stdout == "42\n", done.stderr


def points(reader: InMemoryMetricReader) -> Points:
    """By name, then by outcome, where there is one."""
    return {
        metric.name: {_text(point.attributes, "stem.outcome"): point.value for point in metric.data.data_points}
        for metric in _metrics(reader)
        if metric.name.startswith("stem.worker.")
    }


def attributes(reader: InMemoryMetricReader, name: str) -> list[tuple[str | None, str | None]]:
    return [
        (_text(point.attributes, "stem.worker.id"), _text(point.attributes, "stem.namespace"))
        for metric in _metrics(reader)
        if metric.name == name
        for point in metric.data.data_points
    ]


def _metrics(reader: InMemoryMetricReader) -> list[Any]:
    data = reader.get_metrics_data()
    scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
    return [metric for scope in scopes if scope.scope.name == "stem" for metric in scope.metrics]


def _text(attributes: Any, name: str) -> str | None:
    value = attributes.get(name)
    return None if value is None else str(value)
