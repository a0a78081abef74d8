"""One attempt of a task, from the delivery to the decision: admit, run, decide. Whoever calls it writes the decision."""

import random
from collections.abc import Callable
from time import perf_counter

import msgspec

from stem.client.admit import Admitted, admit
from stem.client.app import Stem
from stem.client.context import Channel, TaskContext, running
from stem.client.invoke import End, ainvoke, invoke
from stem.core.delivery import Delivery
from stem.core.outcome import Outcome, Rejected, Settlement
from stem.core.settle import Policy, settle

Begin = Callable[[Admitted], object]
Roll = Callable[[], float]


class Verdict(msgspec.Struct, frozen=True):
    """What became of an attempt, and how long it ran; None: it never started."""

    settlement: Settlement
    run_seconds: float | None


def _nothing(_admitted: Admitted) -> None: ...


def _none() -> None: ...


def attempt(
    app: Stem,
    delivery: Delivery,
    channel: Channel,
    *,
    worker: str,
    begin: Begin = _nothing,
    end: End = _none,
    roll: Roll = random.random,
    catch_interrupts: bool = True,
) -> Verdict:
    """Run the handler, sync or async, in this thread. Nothing the task does is raised here; without
    `catch_interrupts` a KeyboardInterrupt is.

    `begin` is called once it is sure that the handler will run, right before it does; what it raises is raised here. `end`
    is called when the handler has been left, whatever it came to: what a signal raises in between is the attempt's outcome.
    """
    admitted = admit(app, delivery)
    if isinstance(admitted, Rejected):
        return Verdict(_decided(admitted, Policy(), delivery, roll), None)
    context = TaskContext(app, delivery, admitted.envelope, channel, worker)
    token = running.set(context)
    try:
        begin(admitted)
        started_at = perf_counter()
        outcome = invoke(admitted, context, end, catch_interrupts=catch_interrupts)
        return _verdict(admitted, context, outcome, perf_counter() - started_at, roll)
    finally:
        running.reset(token)


async def aattempt(
    app: Stem,
    delivery: Delivery,
    channel: Channel,
    *,
    worker: str,
    begin: Begin = _nothing,
    end: End = _none,
    roll: Roll = random.random,
    catch_interrupts: bool = True,
) -> Verdict:
    """As `attempt`, for async handlers, on the caller's loop. Cancelling it cancels the handler, and is raised here."""
    admitted = admit(app, delivery)
    if isinstance(admitted, Rejected):
        return Verdict(_decided(admitted, Policy(), delivery, roll), None)
    context = TaskContext(app, delivery, admitted.envelope, channel, worker)
    token = running.set(context)
    try:
        begin(admitted)
        started_at = perf_counter()
        outcome = await ainvoke(admitted, context, end, catch_interrupts=catch_interrupts)
        return _verdict(admitted, context, outcome, perf_counter() - started_at, roll)
    finally:
        running.reset(token)


def _verdict(call: Admitted, context: TaskContext, outcome: Outcome, run_seconds: float, roll: Roll) -> Verdict:
    settlement = _decided(outcome, call.policy, context.delivery, roll)
    call.hooks.settle(context, settlement)
    return Verdict(settlement, run_seconds)


def _decided(outcome: Outcome, policy: Policy, delivery: Delivery, roll: Roll) -> Settlement:
    return settle(outcome, policy, attempt=delivery.attempt, deaths=delivery.deaths, roll=roll())
