"""Signs revokes and pauses when they are stored, and verifies them before they have an effect."""

from collections.abc import Mapping, Sequence

import msgspec

from stem.control.caller import Caller
from stem.core.errors import ConfigError, SignatureInvalid
from stem.core.revoke import RevokeRecord, RevokeRequest, Seal, read_seal, sealed_bytes
from stem.runtime.keys import Keyring


class Trust:
    """Which revokes and pauses count: all where there are no keys, else those that one of the keys has signed."""

    def __init__(self, keyring: Keyring, namespace: str) -> None:
        self._keyring = keyring
        self._namespace = namespace

    def __bool__(self) -> bool:
        """Whether signatures are asked for."""
        return bool(self._keyring)

    def seal_of(self, record: RevokeRecord) -> Seal | None:
        """None: it is not signed, or not by one of the keys for this id in this namespace."""
        seal = read_seal(record.seal)
        if seal is None:
            return None
        data = sealed_bytes(record, namespace=self._namespace, stamp=seal.stamp, expires_ms=seal.expires_ms)
        try:
            self._keyring.verify(seal.key_id, data, seal.signature)
        except SignatureInvalid:
            return None
        return seal

    def counts(self, record: RevokeRecord) -> bool:
        return not self or self.seal_of(record) is not None


def sealed(
    requests: Sequence[RevokeRequest], before: Mapping[str, RevokeRecord], caller: Caller
) -> list[RevokeRequest]:
    """The requests signed with the caller's keys, each with a higher stamp than the record that it replaces. Without keys,
    as they are; raises ConfigError where it is known that workers would not heed them."""
    if not caller.keyring:
        if caller.asks_for_signatures() or any(record.seal for record in before.values()):
            raise ConfigError(
                "The workers heed signed revokes and pauses only, and there is no key here, so nothing was written; "
                "set STEM_CONTROL_KEYS."
            )
        return list(requests)
    trust, now = Trust(caller.keyring, caller.tasks_namespace), caller.now()
    return [_sealed(request, before.get(request.task_id), trust, caller, now) for request in requests]


def _sealed(
    request: RevokeRequest, before: RevokeRecord | None, trust: Trust, caller: Caller, now: float
) -> RevokeRequest:
    last = None if before is None else trust.seal_of(before)
    stamp = max(int(now * 1e6), 0 if last is None else last.stamp + 1)  # also where the store's clock was set back
    expires_ms = None if request.expires_seconds is None else int((now + request.expires_seconds) * 1000)
    data = sealed_bytes(request, namespace=caller.tasks_namespace, stamp=stamp, expires_ms=expires_ms)
    key_id, signature = caller.keyring.sign(data)
    return msgspec.structs.replace(request, seal=str(Seal(stamp, expires_ms, key_id, signature)))
