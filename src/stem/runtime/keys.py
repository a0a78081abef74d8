"""Signing keys: HMAC-SHA256 and Ed25519, each with an id, several at once for rotation."""

import base64
import binascii
import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from stem.core.errors import ConfigError, SignatureInvalid, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_KEY_ID = re.compile(r"[A-Za-z0-9._\-]{1,64}", re.ASCII)
_FORM = "id:hmac-sha256:<base64>, id:ed25519:<base64 seed> or id:ed25519-public:<base64>"


class Keyring:
    """The first key that can sign signs; every key verifies. To rotate: add the new key to all readers, then put it
    first for all senders, and drop the old one when its last envelope has ended."""

    def __init__(self, keys: dict[str, "Key"]) -> None:
        self._keys = keys
        self._signer = next((key for key in keys.values() if key.can_sign), None)

    @classmethod
    def parse(cls, text: str) -> "Keyring":
        """Read `id:algorithm:value` entries, separated by commas. A value, or all of the text, may be `@/path/to/file`;
        a file may have one entry per line. Without text there are no keys. Raises ConfigError, which never shows a key;
        also for a text that holds no key, because signing must not turn itself off."""
        if not text:
            return cls({})
        source = "The setting of the keys holds no key"
        if text.strip().startswith("@"):
            source = f"The key file {text.strip()[1:]} holds no key"
            text = ",".join(_contents(text.strip()[1:], "The signing keys").split())
        keys: dict[str, Key] = {}
        for entry in filter(None, (part.strip() for part in text.split(","))):
            key = _parse(entry)
            if key.id in keys:
                raise ConfigError(f"Signing key {key.id!r} is given twice; give each key an id of its own.")
            keys[key.id] = key
        if not keys:
            raise ConfigError(f"{source}; add one as {_FORM}, or unset it to sign nothing.")
        return cls(keys)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._keys)})"

    @property
    def can_sign(self) -> bool:
        return self._signer is not None

    def sign(self, data: bytes) -> tuple[str, str]:
        """Sign; returns the id of the key, and the signature in base64."""
        if self._signer is None:
            raise UsageError("None of the signing keys can sign; add an hmac-sha256 or a private ed25519 key.")
        return self._signer.id, base64.b64encode(self._signer.sign(data)).decode()

    def verify(self, key_id: str, data: bytes, signature: str) -> None:
        """Raises SignatureInvalid."""
        key = self._keys.get(key_id)
        if key is None:
            raise SignatureInvalid(f"The signature was made with key {key_id!r}, which is not among the signing keys.")
        try:
            given = base64.b64decode(signature, validate=True)
        except (binascii.Error, ValueError) as error:
            raise SignatureInvalid(f"The signature made with key {key_id!r} is not base64.") from error
        if not key.verifies(data, given):
            raise SignatureInvalid(f"The signature made with key {key_id!r} does not match what it signed.")


class Key(ABC):
    """One key with an id. Its repr never shows the secret."""

    can_sign = True

    def __init__(self, key_id: str, secret: bytes) -> None:
        self.id = key_id
        self._secret = secret

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"

    @abstractmethod
    def sign(self, data: bytes) -> bytes: ...

    @abstractmethod
    def verifies(self, data: bytes, signature: bytes) -> bool: ...


class HmacKey(Key):
    def sign(self, data: bytes) -> bytes:
        import hmac  # on use, as below: most apps sign nothing

        return hmac.digest(self._secret, data, "sha256")

    def verifies(self, data: bytes, signature: bytes) -> bool:
        import hmac

        return hmac.compare_digest(self.sign(data), signature)


class Ed25519Key(Key):
    def sign(self, data: bytes) -> bytes:
        return self._private().sign(data)

    def verifies(self, data: bytes, signature: bytes) -> bool:
        return _verifies(self._private().public_key(), data, signature)

    def _private(self) -> "Ed25519PrivateKey":
        # Imported on use: most apps have no Ed25519 key, and the package is slow to load.
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self._secret)


class Ed25519PublicOnly(Key):
    can_sign = False

    def sign(self, data: bytes) -> bytes:  # noqa: ARG002
        raise UsageError(f"Signing key {self.id!r} is a public key and cannot sign; use the private one.")

    def verifies(self, data: bytes, signature: bytes) -> bool:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        return _verifies(Ed25519PublicKey.from_public_bytes(self._secret), data, signature)


_ALGORITHMS: dict[str, type[Key]] = {
    "hmac-sha256": HmacKey,
    "ed25519": Ed25519Key,
    "ed25519-public": Ed25519PublicOnly,
}


def _parse(entry: str) -> Key:
    key_id, _, rest = entry.partition(":")
    algorithm, _, value = rest.partition(":")
    if not _KEY_ID.fullmatch(key_id) or not value:
        # The entry may be a bare secret: it is not repeated here.
        raise ConfigError(f"A signing key is not of the form {_FORM}.")
    if algorithm not in _ALGORITHMS:
        raise ConfigError(f"Signing key {key_id!r} has an unknown algorithm; write it as {_FORM}.")
    what = f"Signing key {key_id!r}"
    secret = _decoded(_contents(value[1:], what) if value.startswith("@") else value, what)
    if algorithm == "hmac-sha256" and len(secret) < 16:
        raise ConfigError(
            f"{what} has {len(secret)} bytes and needs at least 16; make one with: openssl rand -base64 32"
        )
    if algorithm != "hmac-sha256" and len(secret) != 32:
        raise ConfigError(
            f"{what} has {len(secret)} bytes, and an Ed25519 key has 32; give the raw seed or public key."
        )
    return _ALGORITHMS[algorithm](key_id, secret)


def _contents(path: str, what: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise ConfigError(f"{what} should be in {path}, which cannot be read: {reason}.") from None


def _decoded(value: str, what: str) -> bytes:
    plain = value.strip().replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"{what} is not base64; encode the raw bytes with base64.") from None


def _verifies(key: "Ed25519PublicKey", data: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True
