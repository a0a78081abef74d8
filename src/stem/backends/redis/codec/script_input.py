"""Encode pushes and endings as the Lua scripts read them."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from stem.backends.redis.codec.values import at_or_false, json, texts
from stem.backends.redis.namespace import microseconds, pack
from stem.backends.tenants import tenant_data
from stem.core import envelope as envelopes
from stem.core.delivery import DeadCall, Ending
from stem.core.envelope import Envelope, Push
from stem.core.event import event_data, event_kinds
from stem.core.outcome import Block, Cancelled, Dead, Done, Requeue, Retry
from stem.core.prerequisites import JOINS
from stem.core.record import TaskError

SMALL = 1024  # bytes; a longer body is stored under its own key, so that changes of the task need not copy it
Pushed = tuple[Any, ...]  # as shared/pushing.lua takes it
Successes = tuple[list[str], list[int], list[int | bool], list[str]]  # as succeed.lua takes them: by column
kind = itemgetter(0, 2, 3, 4)  # of a push: its options, name, queue and priority


def pushed(push: Push) -> Pushed:
    """Encode a push. The checks are written out, because no code runs more often."""
    envelope, unique = push.envelope, push.unique
    body = envelopes.encode(envelope)
    is_plain = (
        unique is None
        and push.delay_seconds is None
        and push.expires_seconds is None
        and envelope.not_before is None
        and envelope.expires_at is None
        and not envelope.visibility_timeout
        and not envelope.after
        and push.into is None
        and envelope.name not in JOINS
        and len(body) <= SMALL
    )
    return (
        False if is_plain else _options(push, body),
        envelope.id,
        envelope.name,
        envelope.queue,
        envelope.priority,
        texts(envelope.meta) if envelope.meta else False,
        False if unique is None else unique.key,
        body.decode() if len(body) <= SMALL else False,
    )


def tenants(pushes: Sequence[Push]) -> list[str | bool] | bool:
    """Encode the event data of each new task; False if no task has a tenant."""
    if not any(push.envelope.headers for push in pushes):
        return False
    data = [tenant_data(push.envelope) for push in pushes]
    return [json(each) if each else False for each in data] if any(data) else False


def packed_fields(row: Pushed) -> bytes:
    """Pack the fields of a push one after the other, without the head of a list, as they are stored."""
    return pack(row[1:])[1:]


def ended(ending: Ending) -> tuple[Any, ...]:
    """Encode an ending for settle.lua."""
    settlement, run, lease = ending.settlement, ending.run_seconds, ending.lease
    payload = bytes(settlement.payload).decode() if isinstance(settlement, Done) else False
    shared = (
        lease.id,
        lease.fence,
        event_kinds(settlement)[0],
        False if run is None else microseconds(run),
        texts(ending.meta),
        len(ending.follow_ups),
        payload,
        json(ending.facts) if ending.facts else False,
    )
    return shared if isinstance(settlement, Done) else shared + _unsuccessful(settlement, ending.facts)


def dead_call(call: DeadCall) -> tuple[Any, ...]:
    """Encode a dead call for insert_dead.lua."""
    error, data, _, _, reason, letter, _ = _unsuccessful(call.settlement)
    run = False if call.run_seconds is None else microseconds(call.run_seconds)
    return (*pushed(Push(call.envelope)), call.attempt, run, error, data, reason, letter)


def successes(endings: Sequence[Ending]) -> Successes | None:
    """Encode successes by column for succeed.lua; None if one of the endings needs settle.lua."""
    columns: Successes = [], [], [], []
    ids, fences, runs, payloads = columns
    for ending in endings:
        settlement, run, lease = ending.settlement, ending.run_seconds, ending.lease
        if not isinstance(settlement, Done) or ending.meta or ending.follow_ups or ending.facts:
            return None
        ids.append(lease.id)
        fences.append(lease.fence)
        runs.append(False if run is None else microseconds(run))
        payloads.append(bytes(settlement.payload).decode())
    return columns if len(set(ids)) == len(ids) else None


def _options(push: Push, body: bytes) -> tuple[Any, ...]:
    envelope, delay, lifetime, unique = push.envelope, push.delay_seconds, push.expires_seconds, push.unique
    return (
        False if delay is None else microseconds(delay),
        at_or_false(envelope.not_before),
        False if lifetime is None else microseconds(lifetime),
        at_or_false(envelope.expires_at),
        microseconds(envelope.visibility_timeout) if envelope.visibility_timeout else False,
        False if unique is None else unique.key,
        False if unique is None or unique.seconds is None else microseconds(unique.seconds),
        body.decode() if len(body) > SMALL else False,
        _links(push, body),
    )


def _links(push: Push, body: bytes) -> tuple[Any, ...] | bool:
    envelope = push.envelope
    supersedes = None if push.unique is None else push.unique.supersedes
    if not (envelope.after or envelope.is_join or push.into or supersedes):
        return False
    most = None if push.unique is None else push.unique.max_delay_seconds
    return (
        envelope.after or False,
        envelope.on_failure,
        _args_place(envelope, body) if envelope.is_join else False,
        push.into or False,
        supersedes or False,
        False if most is None else microseconds(most),
    )


def _args_place(envelope: Envelope, body: bytes) -> tuple[int, int]:
    """Where the arguments begin in the body, counted from 1 as Lua does, and how long they are: a join's end copies them."""
    before = f'{{"id":{json(envelope.id)},"name":{json(envelope.name)},"args":'.encode()
    if not body.startswith(before + bytes(envelope.args)):
        raise TypeError(f"The arguments of {envelope.id} are not where an envelope has them.")
    return len(before) + 1, len(bytes(envelope.args))


def _unsuccessful(
    settlement: Retry | Dead | Requeue | Block | Cancelled, facts: dict[str, Any] | None = None
) -> tuple[Any, ...]:
    """Error, data, delay, whether the worker died, reason and meta of the dead letter, and what only some have."""
    data = json(event_data(settlement, facts))
    match settlement:
        case Retry(seconds, error):
            return json(error), data, microseconds(seconds), False, "", False, False
        case Dead(reason, error, meta):
            return json(error), data, 0, False, reason, json(meta), False
        case Requeue(seconds, died=died, event=event):
            return False, data, microseconds(seconds), died, "", False, event or False
        case Block(after):
            return False, data, 0, False, "", False, after
        case Cancelled(reason, passes):
            return json(TaskError("Cancelled", reason)), data, 0, False, "", False, passes
