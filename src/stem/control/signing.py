"""Signs commands and replies when they are sent, and verifies them when they are received."""

import hashlib

import msgspec

from stem.core.control import Auth, Command, Reply, canonical, canonical_reply
from stem.core.errors import SignatureInvalid
from stem.runtime.keys import Keyring


def sign(command: Command, keyring: Keyring, *, namespace: str) -> Command:
    """Return the command with a signature, or unchanged if there are no keys."""
    if not keyring:
        return command
    key_id, signature = keyring.sign(_signed(command, namespace))
    return msgspec.structs.replace(command, auth=Auth(signature=signature, key_id=key_id))


def verify(command: Command, keyring: Keyring, *, namespace: str) -> None:
    """Raises SignatureInvalid. Where there are no keys every command passes."""
    if not keyring:
        return
    if command.auth is None:
        raise SignatureInvalid(
            "The command is not signed (it has no `auth`), and this worker obeys signed commands only."
        )
    keyring.verify(command.auth.key_id, _signed(command, namespace), command.auth.signature)


def sign_reply(reply: Reply, command: Command, keyring: Keyring, *, namespace: str) -> Reply:
    """Return the reply with a signature, or unchanged if no key can sign."""
    if not keyring.can_sign:
        return reply
    key_id, signature = keyring.sign(_signed_reply(reply, command, namespace))
    return msgspec.structs.replace(reply, auth=Auth(signature=signature, key_id=key_id))


def verify_reply(reply: Reply, command: Command, keyring: Keyring, *, namespace: str) -> None:
    """Raises SignatureInvalid. Where there are no keys every reply passes."""
    if not keyring:
        return
    if not isinstance(reply.auth, Auth):
        raise SignatureInvalid("The reply is not signed.")
    keyring.verify(reply.auth.key_id, _signed_reply(reply, command, namespace), reply.auth.signature)


def _signed(command: Command, namespace: str) -> bytes:
    """With the namespace in front: what one fleet was told must not steer another that has the same keys."""
    return f"stem.control {namespace}\n".encode() + canonical(command)


def _signed_reply(reply: Reply, command: Command, namespace: str) -> bytes:
    """With a digest of the whole command, its signature included: an answer to one, or to a forged twin of it, cannot be shown
    as the answer to another."""
    signature = command.auth.signature if command.auth is not None else ""
    digest = hashlib.sha256(_signed(command, namespace) + signature.encode()).hexdigest()
    return f"stem.control.reply {namespace} {digest}\n".encode() + canonical_reply(reply)
