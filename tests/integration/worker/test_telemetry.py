"""Metrics and traces of a real worker, as a collector receives them by OTLP and Prometheus reads them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support.until import until
from support.web.collector import Collector, attributes, collector
from support.workers.probes import Probe
from support.workers.processes import TESTS, WorkerProcess, desk, environment, worker_process

PLAIN = "support.worker_apps.plain:app"
TRACED = "support.worker_apps.traced:app"
SEND = (
    "import sys\n"
    "from opentelemetry import trace\n"
    "from opentelemetry.sdk.trace import TracerProvider\n"
    "trace.set_tracer_provider(TracerProvider())\n"
    "from stem import Stem\n"
    "app = Stem()\n"
    "with trace.get_tracer('test').start_as_current_span('request') as span:\n"
    "    task = app.enqueue(sys.argv[1], check=False, max_retries=1)\n"
    "    print(f'{span.get_span_context().trace_id:032x}')\n"
    "try:\n    task.get(30)\nexcept Exception as error:\n    print(error)\n"
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/stem.db"


def test_metrics_reach_a_collector_that_variables_name_without_any_code(
    url: str, namespace: str, tmp_path: Path
) -> None:
    with collector() as found, desk(url, namespace) as client:
        with observed_worker(url, namespace, PLAIN, tmp_path, found, name="w1", concurrency=1):
            client.call("echo", value=1)
            client.ended(client.send("fail", file=str(tmp_path / "mark")))
            until(lambda: {"stem.tasks.succeeded", "stem.task.wait", "stem.tasks.failed"} <= found.metrics.keys())
            (point,) = found.metrics["stem.tasks.succeeded"].sum.data_points
            assert point.as_int == 1 or point.as_double == 1
            told = {"stem.namespace": namespace, "stem.task.name": "echo", "stem.queue": "default"}
            assert attributes(point) == told
            (wait,) = found.metrics["stem.task.wait"].histogram.data_points
            assert wait.explicit_bounds[-1] == 1800.0 and "stem.worker.id" not in attributes(wait)
            assert until(lambda: _counts(found, "stem.task.duration").get("echo")) == 1
            assert "broker.settle" in _counts(found, "stem.store.call.duration", "stem.store.call")
            assert {"service.name": "stem-worker", "service.instance.id": "w1"}.items() <= found.resources[-1].items()
            assert not any(name.startswith("messaging.") for name in found.metrics)


def test_names_of_the_messaging_conventions_are_an_option(url: str, namespace: str, tmp_path: Path) -> None:
    opted = {"OTEL_SEMCONV_STABILITY_OPT_IN": "http,messaging"}
    with collector() as found, desk(url, namespace) as client:
        with observed_worker(url, namespace, PLAIN, tmp_path, found, variables=opted, concurrency=1):
            client.call("echo", value=1)
            until(lambda: {"messaging.process.duration", "messaging.client.consumed.messages"} <= found.metrics.keys())
            (point,) = found.metrics["messaging.process.duration"].histogram.data_points
            assert attributes(point)["messaging.destination.name"] == "default"
            assert attributes(point)["messaging.system"] == "stem"


def test_one_trace_leads_from_the_sender_through_two_tasks(url: str, namespace: str, tmp_path: Path) -> None:
    with collector() as found, observed_worker(url, namespace, TRACED, tmp_path, found, concurrency=1) as worker:
        trace_id = send(url, namespace, "parent")
        until(lambda: found.named("execute child"), seconds=20)
        names = ["consume parent", "execute parent", "enqueue child", "consume child", "execute child"]
        spans = {name: until(lambda name=name: found.named(name))[0] for name in names}  # type: ignore[misc]
        assert {span.trace_id.hex() for span in spans.values()} == {trace_id}
        for parent, child in pairwise(names):
            assert spans[child].parent_span_id == spans[parent].span_id
        lines = until(lambda: [line for line in worker.text.splitlines() if "child speaks" in line])
        assert f'"traceId": "{trace_id}"' in lines[0]
        ended = until(
            lambda: [line for line in worker.text.splitlines() if "task.succeeded" in line and "child" in line]
        )
        assert json.loads(ended[0])["traceId"] == trace_id


def test_a_retry_has_a_trace_of_its_own_that_is_linked_to_the_senders(url: str, namespace: str, tmp_path: Path) -> None:
    with collector() as found, observed_worker(url, namespace, TRACED, tmp_path, found, concurrency=1) as worker:
        trace_id = send(url, namespace, "flaky")
        until(lambda: len(found.named("consume flaky")) == 2, seconds=20)
        first, second = sorted(found.named("consume flaky"), key=lambda span: span.start_time_unix_nano)
        assert first.trace_id.hex() == trace_id and not first.links
        assert attributes(first)["stem.outcome"] == "retried" and attributes(first)["error.type"] == "RuntimeError"
        assert [event.name for event in first.events] == ["exception"]
        assert second.trace_id.hex() != trace_id
        assert [link.trace_id.hex() for link in second.links] == [trace_id]
        told = [json.loads(line) for line in worker.text.splitlines() if line.startswith("{")]
        traces = {each["message"]: each.get("traceId") for each in told if each["event"] == "task.output"}
        assert traces["flaky speaks at 0"] == trace_id
        assert traces["flaky speaks at 1"] == second.trace_id.hex()
        assert [each["traceId"] for each in told if each["event"] == "task.succeeded"] == [second.trace_id.hex()]


def test_inline_tasks_are_traced_and_the_last_spans_are_sent_before_the_worker_ends(
    url: str, namespace: str, tmp_path: Path
) -> None:
    slow = {"OTEL_BSP_SCHEDULE_DELAY": "60000"}
    with collector() as found:
        with observed_worker(url, namespace, TRACED, tmp_path, found, variables=slow, concurrency=1) as worker:
            for name in ("inline", "parent"):
                send(url, namespace, name)
            assert not found.spans
            assert worker.stop() == 0
        assert found.named("execute inline") and found.named("execute parent")


def test_without_variables_nothing_of_opentelemetry_is_imported(url: str, namespace: str) -> None:
    code = (
        "import sys\nfrom stem import Stem, Worker\n"
        "app = Stem()\n"
        "@app.task\ndef loaded() -> list[str]:\n"
        "    return [name for name in sys.modules if name.startswith(('opentelemetry', 'prometheus', 'starlette'))]\n"
        "with Worker(app, in_process=True):\n    print(loaded.enqueue().get(20))\n"
    )
    quiet = {name: text for name, text in environment(url, namespace).items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=TESTS, timeout=60, env=quiet
    )
    assert done.stdout == "[]\n", done.stderr


def test_a_collector_that_is_away_costs_no_task_and_little_time(url: str, namespace: str, tmp_path: Path) -> None:
    away = Collector(url="http://127.0.0.1:9")
    with (
        desk(url, namespace) as client,
        observed_worker(url, namespace, TRACED, tmp_path, away, concurrency=1) as worker,
    ):
        client.call("parent")
        assert worker.stop(seconds=20) == 0


def test_prometheus_reads_counts_waits_and_depths(url: str, namespace: str, tmp_path: Path) -> None:
    probe, mark, end = Probe(), tmp_path / "mark", tmp_path / "end"
    options: dict[str, Any] = {"health": probe.address, "concurrency": 1, "heartbeat_seconds": 0.2, "name": "w1"}
    with desk(url, namespace) as client, worker_process(url, namespace, PLAIN, tmp_path, **options):
        for _ in range(3):
            client.call("echo", value=1)
        client.ended(client.send("fail", file=str(mark)))
        mark.unlink()
        client.ended(client.send("nobody.has.this"))
        until(lambda: probe.value("stem_tasks_failed_total") == 2)
        assert probe.value("stem_tasks_succeeded_total", stem_task_name="echo", stem_queue="default") == 3
        assert probe.value("stem_tasks_retried_total", stem_task_name="fail") == 1
        assert probe.value("stem_tasks_failed_total", stem_task_name="unknown") == 1
        assert probe.value("stem_tasks_started_total") == 5, "one that is unknown never starts"
        assert probe.value("stem_task_duration_seconds_count", stem_task_name="echo") == 3
        assert probe.value("stem_task_wait_seconds_count") == 4, "a retry does not wait again"
        assert probe.value("stem_task_wait_seconds_bucket", le="1800.0") == 4
        assert probe.value("stem_worker_concurrency", stem_worker_id="w1") == 1
        client.send("hold", file=str(mark), until=str(end))
        until(mark.exists)
        until(lambda: probe.value("stem_queue_depth", stem_queue_state="running") == 1)
        until(lambda: probe.value("stem_tasks_started_total", stem_task_name="hold") == 1)
        assert probe.value("stem_queue_depth", stem_queue_state="dead") == 2
        assert probe.value("stem_worker_inflight") == 1
        end.touch()
        until(lambda: probe.value("stem_tasks_succeeded_total", stem_task_name="hold") == 1)
        assert probe.value("stem_tasks_started_total", stem_task_name="hold") == 1


@contextmanager
def observed_worker(
    url: str,
    namespace: str,
    app_path: str,
    directory: Path,
    found: Collector,
    *,
    variables: dict[str, str] | None = None,
    **options: Any,
) -> Iterator[WorkerProcess]:
    """A worker with a JSON log whose telemetry goes to the collector."""
    told = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": found.url,
        "OTEL_METRIC_EXPORT_INTERVAL": "200",
        "STEM_TEST_LOG": "json",
        **(variables or {}),
    }
    worker = WorkerProcess(
        url, namespace, app_path, directory / f"worker-{os.urandom(4).hex()}.log", options, variables=told
    )
    try:
        worker.wait_until_up()
        yield worker
    finally:
        worker.clean_up()


def send(url: str, namespace: str, name: str) -> str:
    """Send a task from a process that traces, and wait for its end; returns the trace's id."""
    done = subprocess.run(
        [sys.executable, "-c", SEND, name],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(url, namespace),
        cwd=TESTS,
    )
    assert done.returncode == 0 and done.stdout, done.stderr
    return done.stdout.split()[0]


def _counts(found: Collector, name: str, label: str = "stem.task.name") -> dict[str, int]:
    points = found.metrics[name].histogram.data_points if name in found.metrics else []
    return {attributes(point)[label]: point.count for point in points}
