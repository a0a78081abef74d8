"""Keep revokes in memory."""

from collections.abc import Sequence

from stem.backends.memory.state import MemoryState
from stem.contracts.steering.revokes import Revokes
from stem.core.record import moment
from stem.core.revoke import RevokeRecord, RevokeRequest


class MemoryRevokes(Revokes):
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def put(self, requests: Sequence[RevokeRequest]) -> list[RevokeRecord]:
        with self._state.changed:
            now = self._state.clock()
            records = [
                request.stored(
                    self._state.number("revoke"),
                    moment(now),
                    None if request.expires_seconds is None else moment(now + request.expires_seconds),
                )
                for request in requests
            ]
            self._state.revokes.update({record.task_id: record for record in records})
            return records

    def get(self, task_ids: Sequence[str]) -> dict[str, RevokeRecord]:
        with self._state.changed:
            live = {id: self._state.revokes[id] for id in task_ids if id in self._state.revokes}
            return {id: record for id, record in live.items() if not self._is_expired(record)}

    def since(self, version: int, *, limit: int) -> list[RevokeRecord]:
        with self._state.changed:
            later = [r for r in self._state.revokes.values() if r.version > version and not self._is_expired(r)]
            return sorted(later, key=lambda record: record.version)[:limit]

    def version(self) -> int:
        with self._state.changed:
            return self._state.last_number("revoke")

    def prune(self) -> int:
        with self._state.changed:
            expired = [record.task_id for record in self._state.revokes.values() if self._is_expired(record)]
            for task_id in expired:
                del self._state.revokes[task_id]
            return len(expired)

    def _is_expired(self, record: RevokeRecord) -> bool:
        return record.expires_at is not None and record.expires_at <= moment(self._state.clock())
