"""Turns a call into an envelope and the push that a store takes."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import msgspec

from stem.client.run.context import lineage, running
from stem.client.send.call_keys import singleton_key, unique_of
from stem.client.send.signing import sign
from stem.client.store_connection import StoreConnection
from stem.client.task.flow_control import SINGLETON_HEADER
from stem.client.task.options import CallPlan
from stem.client.task.signature import FunctionSignature
from stem.core.decisions.routing import TENANT_HEADER, queue_of
from stem.core.envelope import VERSION, Envelope, Push, encode_args
from stem.core.errors import InvalidArguments
from stem.core.ids import uuid7
from stem.core.prerequisites import OnFailure
from stem.core.record import moment
from stem.core.text.sensitive import sensitive_values, without_values
from stem.telemetry.tracing import traced

NO_ARGS = msgspec.Raw(b"{}")


def envelope_template(name: str, plan: CallPlan, *, is_fair: bool = False) -> Envelope:
    """Return the envelope that all calls of a plan share; each call replaces its own fields."""
    headers = plan.headers if plan.tenant is None else {TENANT_HEADER: plan.tenant, **plan.headers}
    return Envelope(
        id=plan.id or "",
        name=name,
        args=NO_ARGS,
        headers=headers,
        enqueued_at=moment(0.0),
        not_before=plan.not_before,
        priority=plan.priority,
        attempt=0,
        max_retries=plan.max_retries,
        visibility_timeout=plan.visibility_timeout,
        queue=queue_of(plan.queue, headers.get(TENANT_HEADER), is_fair=is_fair),
        meta=plan.meta,
        version=VERSION,
        expires_at=plan.expires_at,
        retry=plan.retry,
        soft_limit=plan.soft_limit,
        hard_limit=plan.hard_limit,
        sensitive=plan.sensitive,
    )


class Dependencies(msgspec.Struct, frozen=True):
    """What a task of a canvas has and a single call has not. `meta` says where in the canvas it is."""

    id: str
    after: tuple[str, ...]
    on_failure: OnFailure
    inputs: dict[str, str]
    meta: dict[str, Any]


def compose(
    store_connection: StoreConnection,
    template: Envelope,
    plan: CallPlan,
    arguments: Mapping[str, Any],
    signature: FunctionSignature | None,
    dependencies: Dependencies | None = None,
) -> Push:
    """Build one push; arguments are checked if the signature is known here. Raises InvalidArguments; writes nothing."""
    encode = encode_args if signature is None else signature.encode
    if dependencies is not None and dependencies.inputs and signature is not None:
        encode = signature.encode_part
    with sensitive_errors(arguments, plan.sensitive):
        args = encode(arguments, limit_bytes=store_connection.settings.max_args_bytes)
    now = store_connection.clock()
    sent_at = moment(now)
    changes: dict[str, Any] = {"id": plan.id or uuid7(now, os.urandom(10)), "args": args, "enqueued_at": sent_at}
    # For readers of the envelope; the store counts the seconds from its own clock.
    if plan.delay_seconds is not None:
        changes["not_before"] = sent_at + timedelta(seconds=plan.delay_seconds)
    if plan.expires_seconds is not None:
        changes["expires_at"] = sent_at + timedelta(seconds=plan.expires_seconds)
    if dependencies is not None:
        if dependencies.after:
            changes["not_before"] = template.not_before  # a delay counts from its release, which nobody knows yet
        changes |= msgspec.structs.asdict(dependencies)
        changes["meta"] = {**template.meta, **dependencies.meta}
    elif plan.add_to_parent and (context := running.get()) is not None:
        changes["meta"] = lineage(context, template.meta)
    if plan.is_singleton:
        key = singleton_key(plan, arguments, template.headers, signature)
        changes["headers"] = {**template.headers, SINGLETON_HEADER: key}
    envelope = store_connection.hooks.enqueue(msgspec.structs.replace(template, **changes))
    envelope = traced(envelope)
    unique = unique_of(template.name, plan, arguments, template.headers, signature)
    return Push(signed(store_connection, envelope), plan.delay_seconds, plan.expires_seconds, unique)


@contextmanager
def sensitive_errors(arguments: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[None]:
    """Mask sensitive values in what the check of the arguments says, and do not chain what it caught: that says them too."""
    try:
        yield
    except InvalidArguments as error:
        if not names:
            raise
        raise InvalidArguments(without_values(str(error), sensitive_values(arguments, names))) from None


def signed(store_connection: StoreConnection, envelope: Envelope) -> Envelope:
    """Sign an envelope if the app has keys."""
    if not store_connection.keyring:
        return envelope
    return sign(envelope, store_connection.keyring, namespace=store_connection.settings.namespace)
