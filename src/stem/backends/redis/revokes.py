"""Keep revokes on Redis."""

from collections.abc import Sequence

from stem.backends.redis.codec import stored_revoke
from stem.backends.redis.namespace import RedisNamespace, microseconds
from stem.backends.unreadable import readable
from stem.contracts.steering.revokes import Revokes
from stem.core.revoke import RevokeRecord, RevokeRequest

STEP = 1000  # records per script call


class RedisRevokes(Revokes):
    def __init__(self, namespace: RedisNamespace) -> None:
        self._namespace = namespace

    def put(self, requests: Sequence[RevokeRequest]) -> list[RevokeRecord]:
        if not requests:
            return []
        stored = [
            stored_revoke.StoredRevoke(
                task=request.task_id,
                reason=request.reason,
                requester=request.requester,
                terminate=request.terminate,
                signal=request.signal,
                lifetime=None if request.expires_seconds is None else microseconds(request.expires_seconds),
                seal=request.seal,
            )
            for request in requests
        ]
        return [stored_revoke.revoke(packed) for packed in self._namespace.run("revoke", stored)]

    def get(self, task_ids: Sequence[str]) -> dict[str, RevokeRecord]:
        if not task_ids:
            return {}
        found = readable(self._namespace.run("revoked", list(task_ids)), stored_revoke.revoke)
        return {record.task_id: record for record in found}

    def since(self, version: int, *, limit: int) -> list[RevokeRecord]:
        found: list[RevokeRecord] = []
        while len(found) < limit:
            given = {"after": version, "limit": limit - len(found), "stretch": STEP}
            last, *packed = self._namespace.run("revoked_since", given)
            found += readable(packed, stored_revoke.revoke)
            if not last or int(last) <= version:  # a score written by hand may be none that a number can hold
                break
            version = int(last)
        return found

    def version(self) -> int:
        return int(self._namespace.client.call("HGET", self._namespace.key("numbers"), "revoke") or 0)

    def prune(self) -> int:
        pruned = 0
        while (step := int(self._namespace.run("prune_revokes", {"limit": STEP}))) > 0:
            pruned += step
        return pruned
