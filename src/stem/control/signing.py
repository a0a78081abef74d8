"""Sign a command when it is sent, verify it before it is obeyed."""

import msgspec

from stem.core.control import Auth, Command, canonical
from stem.core.errors import SignatureInvalid
from stem.runtime.keys import Keyring


def sign(command: Command, keyring: Keyring, *, namespace: str) -> Command:
    """As it is where there are no keys."""
    if not keyring:
        return command
    key_id, signature = keyring.sign(_signed(command, namespace))
    return msgspec.structs.replace(command, auth=Auth(signature=signature, key_id=key_id))


def verify(command: Command, keyring: Keyring, *, namespace: str) -> None:
    """Raises SignatureInvalid. Where there are no keys every command passes."""
    if not keyring:
        return
    if command.auth is None:
        raise SignatureInvalid("The command is not signed, and this worker obeys signed commands only.")
    keyring.verify(command.auth.key_id, _signed(command, namespace), command.auth.signature)


def _signed(command: Command, namespace: str) -> bytes:
    """With the namespace in front: what one fleet was told must not steer another that has the same keys."""
    return f"stem.control {namespace}\n".encode() + canonical(command)
