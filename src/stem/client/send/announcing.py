"""Send the signals around storing calls."""

from collections.abc import Callable, Sequence

from stem import signals
from stem.core.envelope import Push, Receipt


def announced(pushes: Sequence[Push], store: Callable[[Sequence[Push]], list[Receipt]]) -> list[Receipt]:
    """Store the calls, with a signal for each before and after. Joins of a canvas are none of the user's calls."""
    if not signals.before_enqueue.handlers and not signals.after_enqueue.handlers:
        return store(pushes)
    for push in pushes:
        if not push.envelope.is_join:
            signals.before_enqueue.send(push.envelope)
    receipts = store(pushes)
    for push, receipt in zip(pushes, receipts, strict=True):
        if not push.envelope.is_join:
            signals.after_enqueue.send(signals.EnqueuedCall(push.envelope, receipt.id, receipt.created))
    return receipts
