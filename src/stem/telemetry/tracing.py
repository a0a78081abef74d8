"""Spans around sending and running a task, in the W3C trace of its headers. Does nothing where no tracer provider is set."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

import msgspec

from stem.core.delivery import Delivery
from stem.core.envelope import Envelope
from stem.core.event import event_kinds
from stem.core.outcome import Dead, Retry, Settlement
from stem.core.record import REPLAY_OF, TaskError
from stem.telemetry.instruments import QUEUE, TASK, WORKER, has_opted_in
from stem.telemetry.otel_metrics import is_real
from stem.telemetry.trace_ids import TRACEPARENT, TRACESTATE

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

_API = "opentelemetry.trace"
_LONGEST_STATE = 512
LATE_SECONDS = 3600.0  # after which a first attempt no longer belongs into the trace of its sender
FLUSH_SECONDS = 2.0  # what a process that ends may wait for the collector


def is_on() -> bool:
    """Whether the process has a tracer provider. Nothing is imported to find out."""
    if _API not in sys.modules:
        return False
    from opentelemetry.trace import get_tracer_provider

    return is_real(get_tracer_provider())


def current_trace_id() -> str:
    """Return the id of the current span's trace; empty if there is none."""
    if not is_on():
        return ""
    from opentelemetry.trace import get_current_span

    found = get_current_span().get_span_context()
    return f"{found.trace_id:032x}" if found.is_valid else ""


def flush() -> None:
    """Send the spans of a process that is about to end. In a thread: a collector that is away may keep its client busy."""
    if not is_on():
        return
    from opentelemetry.trace import get_tracer_provider

    force_flush = getattr(get_tracer_provider(), "force_flush", None)
    if force_flush is not None:
        thread = Thread(target=force_flush, args=(int(FLUSH_SECONDS * 1000),), name="otel-flush", daemon=True)
        thread.start()
        thread.join(FLUSH_SECONDS)


def traced(envelope: Envelope) -> Envelope:
    """Return a call with the headers of a new producer span; headers that the sender gave win."""
    if not is_on() or TRACEPARENT in envelope.headers:
        return envelope
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    attributes = _attributes(envelope.id, envelope.name, envelope.queue, "send")
    with _tracer().start_as_current_span(f"enqueue {envelope.name}", kind=SpanKind.PRODUCER, attributes=attributes):
        TraceContextTextMapPropagator().inject(carrier)
    if len(carrier.get(TRACESTATE, "")) > _LONGEST_STATE:
        del carrier[TRACESTATE]
    return msgspec.structs.replace(envelope, headers={**envelope.headers, **carrier})


class AttemptTrace:
    """The spans of one attempt: `consume` around all of it, `execute` around the handler. Begins as the current span."""

    def __init__(self, envelope: Envelope, delivery: Delivery, worker: str) -> None:
        from opentelemetry import context as contexts
        from opentelemetry.trace import Link, SpanKind, get_current_span, set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._name = envelope.name
        attributes = _attributes(delivery.lease.id, envelope.name, delivery.queue, "process")
        attributes |= {WORKER: worker, "stem.task.attempt": delivery.attempt}
        sent = TraceContextTextMapPropagator().extract(envelope.headers, contexts.Context())
        source = get_current_span(sent).get_span_context()
        is_linked = _begins_a_trace(envelope, delivery)
        self._span: Span = _tracer().start_span(
            f"consume {self._name}",
            context=contexts.Context() if is_linked else sent,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=[Link(source)] if is_linked and source.is_valid else [],
        )
        self._token = contexts.attach(set_span_in_context(self._span))

    @property
    def trace_id(self) -> str:
        return f"{self._span.get_span_context().trace_id:032x}"

    @contextmanager
    def execute(self) -> Iterator[None]:
        with _tracer().start_as_current_span(f"execute {self._name}"):
            yield

    def end(self, settlement: Settlement | None) -> None:
        """None: the attempt was cut off."""
        from opentelemetry import context as contexts

        if settlement is not None:
            self._span.set_attribute("stem.outcome", event_kinds(settlement)[0].value)
        if isinstance(settlement, Dead | Retry):
            self._fail(settlement.error)
        contexts.detach(self._token)
        self._span.end()

    def _fail(self, error: TaskError) -> None:
        from opentelemetry.trace import StatusCode

        self._span.set_status(StatusCode.ERROR, f"{error.type}: {error.message}"[:500])
        self._span.set_attribute("error.type", error.type)
        told = {"type": error.type, "message": error.message, "stacktrace": error.stack}
        self._span.add_event("exception", {f"exception.{name}": text for name, text in told.items() if text})


def attempt_trace(envelope: Envelope, delivery: Delivery, worker: str) -> AttemptTrace | None:
    return AttemptTrace(envelope, delivery, worker) if is_on() else None


def _begins_a_trace(envelope: Envelope, delivery: Delivery) -> bool:
    """Whether the attempt has a trace of its own, linked to that of its sender: what runs long after it was sent, or because
    of something else, would stretch the sender's trace over days."""
    return (
        delivery.attempt > 0
        or bool(envelope.after)
        or "schedule" in envelope.meta
        or REPLAY_OF in envelope.meta
        or _is_late(envelope)
    )


def _is_late(envelope: Envelope) -> bool:
    """A dead letter that is replayed runs as it was sent, and only its age tells it from a first attempt."""
    due_at = max(envelope.enqueued_at, envelope.not_before or envelope.enqueued_at)
    return time.time() - due_at.timestamp() > LATE_SECONDS


def _tracer() -> "Tracer":
    from opentelemetry.trace import get_tracer

    return get_tracer("stem")


def _attributes(task_id: str, name: str, queue: str, operation: str) -> dict[str, Any]:
    found: dict[str, Any] = {"stem.task.id": task_id, TASK: name, QUEUE: queue}
    if has_opted_in():
        found |= {
            "messaging.system": "stem",
            "messaging.destination.name": queue,
            "messaging.message.id": task_id,
            "messaging.operation.type": operation,
        }
    return found
