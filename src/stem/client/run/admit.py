"""Turns a delivery into a call that can run, or a rejection with a reason."""

from collections.abc import Callable
from typing import Any

import msgspec

from stem.client.app import Stem
from stem.client.canvas.values import Records, ValueMissing, no_records
from stem.client.middleware import Hooks
from stem.client.run.engines import engine
from stem.client.run.inputs import PassedOver, resolve
from stem.client.send import signing
from stem.client.task.definition import Definition
from stem.client.task.policy import policy_for
from stem.client.task.task import Task
from stem.core import envelope as envelopes
from stem.core.decisions.settle import Policy
from stem.core.delivery import Delivery
from stem.core.envelope import Envelope
from stem.core.errors import EnvelopeUnreadable, InvalidArguments, SignatureInvalid, StemError, UnknownTask
from stem.core.outcome import Rejected
from stem.core.record import TaskError
from stem.core.text.sensitive import sensitive_values, without_values


class Admitted(msgspec.Struct, frozen=True, eq=False):
    task: Task[..., Any]
    definition: Definition
    envelope: Envelope
    arguments: dict[str, Any]  # decoded to the types of the signature
    hooks: Hooks
    limit_bytes: int  # of the result

    @property
    def function(self) -> Callable[..., Any]:
        return self.definition.function

    @property
    def context_name(self) -> str | None:
        """The parameter that receives the context, if any."""
        signature = self.definition.signature
        return None if signature is None else signature.context

    @property
    def sensitive_values(self) -> tuple[str, ...]:
        """What must not be said of its arguments. Also what the code has declared since the call was sent."""
        names = (*self.envelope.sensitive, *self.definition.plan.sensitive)
        return sensitive_values(self.arguments, names) if names else ()

    @property
    def policy(self) -> Policy:
        policy = policy_for(self.envelope, self.definition.retry)
        return msgspec.structs.replace(policy, max_retries=0) if self.definition.at_most_once else policy

    @property
    def soft_limit(self) -> float | None:
        return self.envelope.soft_limit or self.definition.soft_limit

    @property
    def hard_limit(self) -> float | None:
        return self.envelope.hard_limit or self.definition.hard_limit


def admit(app: Stem, delivery: Delivery, records: Records = no_records) -> Admitted | Rejected | PassedOver:
    """Verify and decode a delivery, with the values of other tasks that it takes. Reasons to reject: envelope-unreadable,
    signature-invalid, unknown-task, invalid-arguments, input-missing, engine-unavailable. Raises StoreUnavailable if those
    values cannot be read."""
    try:
        envelope = envelopes.decode(delivery.body, attempt=delivery.attempt)
        if app.store_connection.keyring:
            # Before anything the envelope says is acted upon.
            signing.verify(envelope, delivery, app.store_connection.keyring, namespace=app.settings.namespace)
            signing.check_time(
                envelope, now=app.store_connection.clock(), max_age_seconds=app.settings.signature_max_age_seconds
            )
        task = app.tasks.get(envelope.name)
        if task is None:
            raise UnknownTask(
                f"No task named {envelope.name!r} is registered with this app; "
                "let the worker import the module that defines it, then replay the dead letter."
            )
        definition = task.definition
        signature = definition.signature
        args = envelope.args
        if envelope.after:
            resolved = resolve(envelope, records)
            if isinstance(resolved, PassedOver):
                return resolved
            args = resolved
        arguments = signature.decode(args) if signature is not None else envelope.arguments()
        if definition.engine is not None and (reason := _no_engine(definition.engine)) is not None:
            return reason
    except InvalidArguments as error:
        return Rejected(
            "invalid-arguments", TaskError("InvalidArguments", _without_sensitive(str(error), envelope, definition))
        )
    except (EnvelopeUnreadable, SignatureInvalid, UnknownTask, ValueMissing) as error:
        return Rejected(_REASONS[type(error)], TaskError(type(error).__name__, str(error)))
    limit_bytes = app.settings.max_result_bytes or app.settings.max_args_bytes
    return Admitted(task, definition, envelope, arguments, app.store_connection.hooks, limit_bytes)


def _without_sensitive(text: str, envelope: Envelope, definition: Definition) -> str:
    """Arguments that do not fit are only known as they were sent, which may be no object."""
    names = (*envelope.sensitive, *definition.plan.sensitive)
    try:
        return without_values(text, sensitive_values(envelope.arguments(), names)) if names else text
    except EnvelopeUnreadable:
        return f"The arguments do not fit {envelope.name}."


def _no_engine(name: str) -> Rejected | None:
    try:
        engine(name)
    except StemError as error:
        return Rejected("engine-unavailable", TaskError(type(error).__name__, str(error)))
    return None


_REASONS: dict[type[StemError], str] = {
    EnvelopeUnreadable: "envelope-unreadable",
    SignatureInvalid: "signature-invalid",
    UnknownTask: "unknown-task",
    ValueMissing: "input-missing",
}
