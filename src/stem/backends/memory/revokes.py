"""Revokes in memory."""

from collections.abc import Sequence

from stem.backends.memory.space import Space
from stem.contracts.revokes import Revokes
from stem.core.record import moment
from stem.core.revoke import RevokeRecord, RevokeRequest


class MemoryRevokes(Revokes):
    def __init__(self, space: Space) -> None:
        self._space = space

    def put(self, requests: Sequence[RevokeRequest]) -> list[RevokeRecord]:
        with self._space.changed:
            now = self._space.clock()
            records = [
                RevokeRecord(
                    task_id=request.task_id,
                    version=self._space.number("revoke"),
                    reason=request.reason,
                    requester=request.requester,
                    terminate=request.terminate,
                    signal=request.signal,
                    created_at=moment(now),
                    expires_at=None if request.expires_seconds is None else moment(now + request.expires_seconds),
                    seal=request.seal,
                )
                for request in requests
            ]
            self._space.revokes.update({record.task_id: record for record in records})
            return records

    def get(self, task_ids: Sequence[str]) -> dict[str, RevokeRecord]:
        with self._space.changed:
            live = {id: self._space.revokes[id] for id in task_ids if id in self._space.revokes}
            return {id: record for id, record in live.items() if not self._is_expired(record)}

    def since(self, version: int, *, limit: int) -> list[RevokeRecord]:
        with self._space.changed:
            later = [r for r in self._space.revokes.values() if r.version > version and not self._is_expired(r)]
            return sorted(later, key=lambda record: record.version)[:limit]

    def version(self) -> int:
        with self._space.changed:
            return self._space.last_number("revoke")

    def prune(self) -> int:
        with self._space.changed:
            expired = [record.task_id for record in self._space.revokes.values() if self._is_expired(record)]
            for task_id in expired:
                del self._space.revokes[task_id]
            return len(expired)

    def _is_expired(self, record: RevokeRecord) -> bool:
        return record.expires_at is not None and record.expires_at <= moment(self._space.clock())
