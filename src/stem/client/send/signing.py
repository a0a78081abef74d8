"""Signs envelopes when they are sent and verifies them before they run."""

import logging

import msgspec

from stem.core.delivery import TWO_PRIORITIES, Delivery
from stem.core.envelope import SIGNATURE_HEADER, SIGNING_KEY_HEADER, Envelope, signed_bytes
from stem.core.errors import SignatureInvalid
from stem.runtime.keys import Keyring

log = logging.getLogger("stem.signing")

FORM = "2"  # of a signature; 1 had neither the namespace nor this number
# How far the clocks of sender and worker may be apart: the store's decides what is due, and is not asked here.
MOST_SKEW_SECONDS = 300.0

_warned: set[str] = set()  # what this process has logged once


def sign(envelope: Envelope, keyring: Keyring, *, namespace: str) -> Envelope:
    key_id, signature = keyring.sign(_signed(envelope, namespace))
    headers = {**envelope.headers, SIGNATURE_HEADER: f"{FORM}:{signature}", SIGNING_KEY_HEADER: key_id}
    return msgspec.structs.replace(envelope, headers=headers)


def verify(envelope: Envelope, delivery: Delivery, keyring: Keyring, *, namespace: str) -> None:
    """Verify a delivery. Also the columns that the store keeps beside the envelope must match it. Raises SignatureInvalid."""
    stored_as = delivery.lease.id
    signature = envelope.headers.get(SIGNATURE_HEADER)
    key_id = envelope.headers.get(SIGNING_KEY_HEADER)
    if not signature or not key_id:
        raise SignatureInvalid(f"Task {stored_as} is not signed, and this app runs signed tasks only.")
    if envelope.id != stored_as:
        raise SignatureInvalid(f"Task {stored_as} carries an envelope that was signed for task {envelope.id}.")
    form, colon, bare = signature.partition(":")
    if not colon:
        _warn_once(
            "signature.outdated: tasks signed by the previous version still run in this release; the next one refuses them"
        )
        keyring.verify(key_id, signed_bytes(envelope), signature)
    elif form == FORM:
        keyring.verify(key_id, _signed(envelope, namespace), bare)
    else:
        raise SignatureInvalid(
            f"Task {stored_as} is signed in form {form!r}, which this Stem does not know; upgrade it."
        )
    _check_columns(envelope, delivery)


def check_time(envelope: Envelope, *, now: float, max_age_seconds: float | None) -> None:
    """Check that a signed call is neither early nor too old. Raises SignatureInvalid."""
    due_at = envelope.not_before
    if due_at is not None and due_at.timestamp() - now > MOST_SKEW_SECONDS:
        raise SignatureInvalid(
            f"Task {envelope.id} is signed for {due_at.isoformat()} and came earlier: "
            "its due time in the store was changed, or the clock of sender or worker is wrong."
        )
    if max_age_seconds is None:
        return
    signed_at = envelope.enqueued_at.timestamp()
    age = now - max(signed_at, signed_at if due_at is None else due_at.timestamp())
    if age > max_age_seconds:
        raise SignatureInvalid(
            f"The signature of task {envelope.id} is {age:,.0f} s old and the limit is {max_age_seconds:,.0f} s; "
            "send it anew, or raise STEM_SIGNATURE_MAX_AGE."
        )


def _check_columns(envelope: Envelope, delivery: Delivery) -> None:
    stored_as, priority = delivery.lease.id, delivery.priority
    if priority == TWO_PRIORITIES:
        raise SignatureInvalid(
            f"Task {stored_as} stood in its queue where its priority does not put it; it was signed for {envelope.priority}."
        )
    for what, stored, signed in (
        ("queue", delivery.queue, envelope.queue),
        ("name", delivery.name, envelope.name),
        ("priority", envelope.priority if priority is None else priority, envelope.priority),
    ):
        if stored != signed:
            raise SignatureInvalid(
                f"Task {stored_as} is stored with the {what} {stored!r} and was signed for {signed!r}."
            )


def _signed(envelope: Envelope, namespace: str) -> bytes:
    return f"stem.task {FORM} {namespace}\n".encode() + signed_bytes(envelope)


def _warn_once(sentence: str) -> None:
    if sentence not in _warned:
        _warned.add(sentence)
        log.warning("%s", sentence)
