"""Revokes on Redis."""

from collections.abc import Sequence

from stem.backends.redis import shapes
from stem.backends.redis.space import Space, microseconds
from stem.backends.unreadable import readable
from stem.contracts.revokes import Revokes
from stem.core.revoke import RevokeRecord, RevokeRequest

STEP = 1000  # marks a script call


class RedisRevokes(Revokes):
    def __init__(self, space: Space) -> None:
        self._space = space

    def put(self, requests: Sequence[RevokeRequest]) -> list[RevokeRecord]:
        if not requests:
            return []
        marks = [
            shapes.Marked(
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
        return [shapes.revoke(packed) for packed in self._space.run("revoke", marks)]

    def get(self, task_ids: Sequence[str]) -> dict[str, RevokeRecord]:
        if not task_ids:
            return {}
        found = readable(self._space.run("revoked", list(task_ids)), shapes.revoke)
        return {record.task_id: record for record in found}

    def since(self, version: int, *, limit: int) -> list[RevokeRecord]:
        found: list[RevokeRecord] = []
        while len(found) < limit:
            given = {"after": version, "limit": limit - len(found), "stretch": STEP}
            last, *packed = self._space.run("revoked_since", given)
            found += readable(packed, shapes.revoke)
            if not last or int(last) <= version:  # a score written by hand may be none that a number can hold
                break
            version = int(last)
        return found

    def version(self) -> int:
        return int(self._space.link.call("HGET", self._space.key("numbers"), "revoke") or 0)

    def prune(self) -> int:
        pruned = 0
        while (step := int(self._space.run("unrevoke", {"limit": STEP}))) > 0:
            pruned += step
        return pruned
