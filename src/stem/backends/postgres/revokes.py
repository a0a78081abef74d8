"""Keep revokes in Postgres."""

from collections.abc import Sequence

import msgspec

from stem.backends.postgres.codec.text_columns import column, json_text, numbers
from stem.backends.postgres.connection.deadline_connection import Row
from stem.backends.postgres.namespace import PostgresNamespace
from stem.backends.unreadable import readable, readable_since
from stem.contracts.steering.revokes import Revokes
from stem.core.record import moment, moment_or_none
from stem.core.revoke import RevokeRecord, RevokeRequest

_request = msgspec.json.Decoder(RevokeRequest)


class PostgresRevokes(Revokes):
    def __init__(self, namespace: PostgresNamespace) -> None:
        self._namespace = namespace

    def put(self, requests: Sequence[RevokeRequest]) -> list[RevokeRecord]:
        if not requests:
            return []
        last = {request.task_id: place for place, request in enumerate(requests)}
        places = list(last.values())
        kept = [requests[place] for place in places]
        ((at, first),) = self._namespace.call(
            "revoke_tasks",
            len(requests),
            column([request.task_id for request in kept]),
            numbers(places),
            numbers([request.expires_seconds for request in kept]),
            column([json_text(request) for request in kept]),
        )
        return [
            _record(
                request,
                first + place,
                at,
                None if request.expires_seconds is None else at + request.expires_seconds,
            )
            for place, request in enumerate(requests)
        ]

    def get(self, task_ids: Sequence[str]) -> dict[str, RevokeRecord]:
        found = readable(self._namespace.query("revokes_get", ids=list(task_ids)), _read) if task_ids else []
        by_id = {record.task_id: record for record in found}
        return {id: by_id[id] for id in task_ids if id in by_id}

    def since(self, version: int, *, limit: int) -> list[RevokeRecord]:
        def rows_since(version: int, limit: int) -> list[Row]:
            return self._namespace.query("revokes_since", version=version, limit=limit)

        return readable_since(version, limit, rows_since, _read)

    def version(self) -> int:
        rows = self._namespace.query("revokes_version")
        return int(rows[0][0]) if rows else 0

    def prune(self) -> int:
        return int(self._namespace.query("revokes_prune")[0][0])


def _read(row: Row) -> RevokeRecord:
    version, created_at, expires_at, body = row
    return _record(_request.decode(body), version, created_at, expires_at)


def _record(request: RevokeRequest, version: int, created_at: float, expires_at: float | None) -> RevokeRecord:
    return request.stored(version, moment(created_at), moment_or_none(expires_at))
