"""Sign an envelope when it is sent, verify it before it is run."""

import msgspec

from stem.core.envelope import SIGNATURE_HEADER, SIGNING_KEY_HEADER, Envelope, signed_bytes
from stem.core.errors import SignatureInvalid
from stem.runtime.keys import Keyring


def sign(envelope: Envelope, keyring: Keyring) -> Envelope:
    key_id, signature = keyring.sign(signed_bytes(envelope))
    headers = {**envelope.headers, SIGNATURE_HEADER: signature, SIGNING_KEY_HEADER: key_id}
    return msgspec.structs.replace(envelope, headers=headers)


def verify(envelope: Envelope, keyring: Keyring, *, stored_as: str) -> None:
    """Raises SignatureInvalid. An envelope copied to another id is refused too: its signature is for its own."""
    signature = envelope.headers.get(SIGNATURE_HEADER)
    key_id = envelope.headers.get(SIGNING_KEY_HEADER)
    if not signature or not key_id:
        raise SignatureInvalid(f"Task {stored_as} is not signed, and this app runs signed tasks only.")
    if envelope.id != stored_as:
        raise SignatureInvalid(f"Task {stored_as} carries an envelope that was signed for task {envelope.id}.")
    keyring.verify(key_id, signed_bytes(envelope), signature)
