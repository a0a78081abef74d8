"""Fills the parameters of a task that take the values of tasks before it."""

import msgspec

from stem.client.canvas.values import Records, Values
from stem.client.run.context import CHAIN_ID
from stem.core.envelope import Envelope
from stem.core.errors import EnvelopeUnreadable

WAITED = b'"after":['  # in the body of every task that waited for others


class PassedOver(msgspec.Struct, frozen=True):
    """The task is a later link of a chain that was ended early."""

    chain_id: str
    ended_by: str


def resolve(envelope: Envelope, records: Records) -> msgspec.Raw | PassedOver:
    """Return the arguments of a task that waited for others, complete, or that it is not to run. Raises ValueMissing,
    EnvelopeUnreadable, and what `records` raises."""
    chain_id = envelope.meta.get(CHAIN_ID)
    if not envelope.inputs and not isinstance(chain_id, str):
        return envelope.args
    values = Values(records)
    values.load([*envelope.inputs.values(), *(envelope.after if chain_id is not None else ())])
    if isinstance(chain_id, str) and (ended := values.chain_ender(envelope.after, chain_id)) is not None:
        return PassedOver(*ended)
    try:
        arguments = msgspec.json.decode(envelope.args, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise EnvelopeUnreadable(
            f"The arguments of {envelope.id} cannot be read ({error}); inspect its dead letter."
        ) from error
    filled = {parameter: values.of(task_id) for parameter, task_id in envelope.inputs.items()}
    return msgspec.Raw(msgspec.json.encode({**arguments, **filled}))
