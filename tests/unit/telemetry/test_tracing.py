"""The spans of sending and running, and which of them belong to one trace."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from stem.core.delivery import Delivery, Lease
from stem.core.envelope import Envelope, encode
from stem.core.outcome import Done
from stem.telemetry import tracing
from stem.telemetry.trace_ids import checked_trace_id, trace_id_of
from support.builders import an_envelope


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """A provider of the test's own: the process has one for good."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_tracer", lambda: provider.get_tracer("stem"))
    monkeypatch.setattr(tracing, "is_on", lambda: True)
    yield exporter
    provider.shutdown()


def test_without_a_provider_a_call_is_left_as_it_is() -> None:
    call = an_envelope()
    assert tracing.traced(call) is call
    assert tracing.attempt_trace(call, _delivery(call), "w1") is None


def test_a_first_attempt_continues_the_trace_of_its_sender(spans: InMemorySpanExporter) -> None:
    call = tracing.traced(an_envelope())
    _run(call)
    sent, executed, consumed = spans.get_finished_spans()
    assert [span.name.split()[0] for span in (sent, executed, consumed)] == ["enqueue", "execute", "consume"]
    assert len({span.context.trace_id for span in (sent, executed, consumed) if span.context}) == 1
    assert consumed.parent is not None and sent.context is not None
    assert consumed.parent.span_id == sent.context.span_id and not consumed.links
    assert trace_id_of(encode(call)) == f"{sent.context.trace_id:032x}"


@pytest.mark.parametrize(
    ("changes", "attempt"),
    [
        ({}, 1),
        ({"meta": {"schedule": "nightly"}}, 0),
        ({"after": ("another",)}, 0),
        ({"meta": {"replayOf": "another"}}, 0),
        ({"enqueued_at": datetime.now(UTC) - timedelta(hours=2)}, 0),
    ],
    ids=["retry", "schedule", "callback", "run again", "replay"],
)
def test_what_runs_for_another_reason_is_linked(
    spans: InMemorySpanExporter, changes: dict[str, Any], attempt: int
) -> None:
    call = tracing.traced(msgspec.structs.replace(an_envelope(), **changes))
    _run(call, attempt)
    sent, _, consumed = spans.get_finished_spans()
    assert sent.context is not None and consumed.context is not None
    assert consumed.parent is None and consumed.context.trace_id != sent.context.trace_id
    assert [link.context.span_id for link in consumed.links] == [sent.context.span_id]


def test_a_header_that_the_sender_gave_is_kept(spans: InMemorySpanExporter) -> None:
    given = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    call = tracing.traced(msgspec.structs.replace(an_envelope(), headers=given))
    assert call.headers == given
    _run(call)
    assert {span.context.trace_id for span in spans.get_finished_spans() if span.context} == {int("a" * 32, 16)}


@pytest.mark.parametrize(
    "header", ["", "00-zz-01", f"00-{'a' * 32}-{'b' * 16}-01\nforged", f"00-{'A' * 32}-{'b' * 16}-01"]
)
def test_a_malformed_header_is_no_trace(spans: InMemorySpanExporter, header: str) -> None:
    call = msgspec.structs.replace(an_envelope(), headers={"traceparent": header})
    assert trace_id_of(encode(call)) == ""
    _run(call)
    (consumed,) = [span for span in spans.get_finished_spans() if span.name.startswith("consume")]
    assert consumed.parent is None and not consumed.links


def test_a_trace_id_that_an_isolate_tells_is_checked() -> None:
    assert checked_trace_id("c" * 32) == "c" * 32
    assert checked_trace_id("c" * 31 + "\n") == checked_trace_id("") == ""


def _run(call: Envelope, attempt: int = 0) -> None:
    trace = tracing.attempt_trace(call, _delivery(call, attempt), "w1")
    assert trace is not None
    with trace.execute():
        pass
    trace.end(Done(msgspec.Raw(b"null")))


def _delivery(call: Envelope, attempt: int = 0) -> Delivery:
    return Delivery(Lease(call.id, 1), call.name, call.queue, attempt, 0, encode(call))
