"""One attempt of a task, from the delivery to the decision: admit, run, decide. Whoever calls it writes the decision."""

import random
from collections.abc import Callable
from time import perf_counter

import msgspec

from stem.client.admit import Admitted, admit
from stem.client.app import Stem
from stem.client.context import Channel, TaskContext, running
from stem.client.invoke import ainvoke, invoke
from stem.core.delivery import Delivery
from stem.core.outcome import Outcome, Rejected, Returned, Settlement
from stem.core.settle import Policy, settle

Begin = Callable[[Admitted], object]
Roll = Callable[[], float]

_ANY = Policy()


class Verdict(msgspec.Struct, frozen=True):
    """What became of an attempt, and how long it ran; None: it never started."""

    settlement: Settlement
    run_seconds: float | None


def _nothing(_admitted: Admitted) -> None: ...


def attempt(
    app: Stem,
    delivery: Delivery,
    channel: Channel,
    *,
    worker: str,
    begin: Begin = _nothing,
    roll: Roll = random.random,
    catch_interrupts: bool = True,
) -> Verdict:
    """Run the handler, sync or async, in this thread. Nothing the task does is raised here, except a KeyboardInterrupt
    without `catch_interrupts`.

    `begin` is called when it is sure that the handler will run, right before it does; what it raises is raised here.
    A signal may raise SoftTimeLimitExceeded or TaskRevoked while the current context `is_running`: that is the attempt's,
    wherever it strikes. At other times it must not, for it would be raised here.
    """
    admitted = admit(app, delivery)
    if isinstance(admitted, Rejected):
        return Verdict(_decided(admitted, Policy(), delivery, roll), None)
    context = TaskContext(app, delivery, admitted.envelope, channel, worker)
    token = running.set(context)
    try:
        begin(admitted)
        began_at = perf_counter()
        outcome = invoke(admitted, context, catch_interrupts=catch_interrupts)
        return _verdict(admitted, context, outcome, perf_counter() - began_at, roll)
    finally:
        running.reset(token)


async def aattempt(
    app: Stem,
    delivery: Delivery,
    channel: Channel,
    *,
    worker: str,
    begin: Begin = _nothing,
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
        began_at = perf_counter()
        outcome = await ainvoke(admitted, context, catch_interrupts=catch_interrupts)
        return _verdict(admitted, context, outcome, perf_counter() - began_at, roll)
    finally:
        running.reset(token)


def _verdict(call: Admitted, context: TaskContext, outcome: Outcome, run_seconds: float, roll: Roll) -> Verdict:
    # A success needs neither policy nor chance.
    policy = _ANY if type(outcome) is Returned else call.policy
    settlement = _decided(outcome, policy, context.delivery, roll)
    call.hooks.settle(context, settlement)
    return Verdict(settlement, run_seconds)


def _decided(outcome: Outcome, policy: Policy, delivery: Delivery, roll: Roll) -> Settlement:
    return settle(outcome, policy, attempt=delivery.attempt, deaths=delivery.deaths, roll=roll())
