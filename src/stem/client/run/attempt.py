"""Runs one attempt of a task: admit, invoke, settle. The caller writes the settlement."""

import random
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from time import perf_counter
from typing import Any

import msgspec

from stem import signals
from stem.client.app import Stem
from stem.client.canvas.values import PASSED
from stem.client.run.admit import Admitted, admit
from stem.client.run.context import NO_META, Channel, TaskContext, running
from stem.client.run.inputs import WAITED, PassedOver
from stem.client.run.invoke import ainvoke, invoke
from stem.core.decisions.settle import Policy, settle
from stem.core.delivery import Delivery
from stem.core.envelope import Push
from stem.core.errors import StoreUnavailable
from stem.core.outcome import (
    Block,
    Cancelled,
    Done,
    Outcome,
    Passed,
    Rejected,
    Requeue,
    Returned,
    Settlement,
)
from stem.core.prerequisites import VALUE_OF
from stem.telemetry.tracing import AttemptTrace, attempt_trace

Begin = Callable[[Admitted], object]
RandomFraction = Callable[[], float]

INPUTS_AWAY_SECONDS = 5.0  # until a task is tried again whose inputs could not be read
_ANY = Policy()
_NOTHING = nullcontext()


class AttemptResult(msgspec.Struct, frozen=True):
    """The settlement of an attempt, and how long it ran (None: it never started). `meta` and `follow_ups` are written with
    it."""

    settlement: Settlement
    run_seconds: float | None
    meta: Mapping[str, Any] = NO_META
    follow_ups: tuple[Push, ...] = ()
    trace_id: str = ""


def _nothing(_admitted: Admitted) -> None: ...


def attempt(
    app: Stem,
    delivery: Delivery,
    channel: Channel,
    *,
    worker: str,
    begin: Begin = _nothing,
    random_fraction: RandomFraction = random.random,
    catch_interrupts: bool = True,
) -> AttemptResult:
    """Run the handler, sync or async, in this thread. Exceptions of the task are not raised here, except a KeyboardInterrupt
    without `catch_interrupts`.

    `begin` is called right before the handler, once it is certain to run; an exception of `begin` is raised here.
    A signal may raise SoftTimeLimitExceeded or TaskRevoked while the current context `is_running`: wherever it strikes, it
    counts as the attempt's. At other times a signal must raise neither, because the caller would get the exception.
    """
    admitted = _admitted(app, delivery, channel, worker)
    if isinstance(admitted, AttemptResult):
        return admitted
    context = TaskContext(app, delivery, admitted.envelope, channel, worker)
    token, trace, result = running.set(context), attempt_trace(admitted.envelope, delivery, worker), None
    try:
        if signals.task_started.handlers:
            signals.task_started.send(context)
        begin(admitted)
        began_at = perf_counter()
        with _NOTHING if trace is None else trace.execute():
            outcome = invoke(admitted, context, catch_interrupts=catch_interrupts)
        result = _attempt_result(admitted, context, channel, outcome, perf_counter() - began_at, random_fraction, trace)
        return result
    finally:
        running.reset(token)
        if trace is not None:
            trace.end(None if result is None else result.settlement)


async def aattempt(
    app: Stem,
    delivery: Delivery,
    channel: Channel,
    *,
    worker: str,
    begin: Begin = _nothing,
    random_fraction: RandomFraction = random.random,
    catch_interrupts: bool = True,
) -> AttemptResult:
    """Run an async handler like `attempt`, on the caller's loop. Cancelling this cancels the handler, and is raised here."""
    if WAITED in delivery.body:  # it may ask for the values of others: the loop is not to wait for them
        import asyncio

        admitted = await asyncio.to_thread(_admitted, app, delivery, channel, worker)
    else:
        admitted = _admitted(app, delivery, channel, worker)
    if isinstance(admitted, AttemptResult):
        return admitted
    context = TaskContext(app, delivery, admitted.envelope, channel, worker)
    token, trace, result = running.set(context), attempt_trace(admitted.envelope, delivery, worker), None
    try:
        if signals.task_started.handlers:
            signals.task_started.send(context)
        begin(admitted)
        began_at = perf_counter()
        with _NOTHING if trace is None else trace.execute():
            outcome = await ainvoke(admitted, context, catch_interrupts=catch_interrupts)
        result = _attempt_result(admitted, context, channel, outcome, perf_counter() - began_at, random_fraction, trace)
        return result
    finally:
        running.reset(token)
        if trace is not None:
            trace.end(None if result is None else result.settlement)


def _attempt_result(
    call: Admitted,
    context: TaskContext,
    channel: Channel,
    outcome: Outcome,
    run_seconds: float,
    random_fraction: RandomFraction,
    trace: AttemptTrace | None,
) -> AttemptResult:
    # A success needs neither policy nor random fraction.
    policy = _ANY if type(outcome) is Returned else call.policy
    settlement = _decided(outcome, policy, context.delivery, random_fraction)
    call.hooks.settle(context, settlement)
    signal = signals.ENDINGS.get(type(settlement))
    if signal is not None:
        _announce(signal, context, channel, settlement, run_seconds)
    trace_id = "" if trace is None else trace.trace_id
    if (context.follow_ups or context.ending_meta) and isinstance(settlement, Done | Block):
        return AttemptResult(settlement, run_seconds, context.ending_meta, context.follow_ups, trace_id)
    return AttemptResult(settlement, run_seconds, trace_id=trace_id)


def _announce(
    signal: signals.Signal[signals.AttemptEnded],
    context: TaskContext,
    channel: Channel,
    settlement: Settlement,
    run_seconds: float,
) -> None:
    """A run that the supervisor has asked to stop may end as it likes: unless it succeeds, it counts as revoked; or the
    supervisor decides, and tells."""
    match "" if type(settlement) is Done else channel.stopped_by():
        case "worker":
            return
        case "revoke" if not isinstance(settlement, Cancelled):
            signal, settlement = signals.task_revoked, Cancelled("revoked")
    if signal.handlers:
        signal.send(signals.AttemptEnded(context, settlement, run_seconds, context.delivery, context.worker))


def _admitted(app: Stem, delivery: Delivery, channel: Channel, worker: str) -> Admitted | AttemptResult:
    """Admit a delivery; one that is not to run has a result already."""
    try:
        admitted = admit(app, delivery, channel.records)
    except StoreUnavailable as error:
        return AttemptResult(Requeue(INPUTS_AWAY_SECONDS, f"inputs-unavailable: {error}"), None)
    if type(admitted) is Admitted:  # first, because it is done for every task
        return admitted
    match admitted:
        case Rejected():
            settlement = _decided(admitted, Policy(), delivery, lambda: 0.0)
            signals.task_failed.send(signals.AttemptEnded(None, settlement, 0.0, delivery, worker))
            return AttemptResult(settlement, None)
        case PassedOver(chain_id, ended_by):
            meta = {VALUE_OF: ended_by, PASSED: chain_id}
            return AttemptResult(_decided(Passed(), Policy(), delivery, lambda: 0.0), None, meta)
        case _:
            return admitted


def _decided(outcome: Outcome, policy: Policy, delivery: Delivery, random_fraction: RandomFraction) -> Settlement:
    return settle(outcome, policy, attempt=delivery.attempt, deaths=delivery.deaths, random_fraction=random_fraction())
