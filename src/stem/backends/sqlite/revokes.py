"""Keep revokes in an SQLite file."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.backends.unreadable import readable, readable_since
from stem.contracts.steering.revokes import Revokes
from stem.core.record import moment
from stem.core.revoke import RevokeRecord, RevokeRequest

_decode = msgspec.json.Decoder(RevokeRecord).decode


class SqliteRevokes(Revokes):
    def __init__(self, namespace: SqliteNamespace) -> None:
        self._namespace = namespace

    def put(self, requests: Sequence[RevokeRequest]) -> list[RevokeRecord]:
        if not requests:
            return []
        namespace = self._namespace
        with namespace.database.writing() as connection:
            now = namespace.now()
            version = namespace.take_numbers(connection, "revoke", len(requests))
            records = [_record(request, version + i, now) for i, request in enumerate(requests)]
            connection.executemany(SQL["revoke_put"], [self._row(record) for record in records])
        return records

    def get(self, task_ids: Sequence[str]) -> dict[str, RevokeRecord]:
        wanted = msgspec.json.encode(list(task_ids)).decode()
        with self._namespace.database.reading() as connection:
            rows = connection.execute(SQL["revoke_get"], (self._namespace.ns, wanted, self._namespace.now())).fetchall()
        return {record.task_id: record for record in readable(rows, _read)}

    def since(self, version: int, *, limit: int) -> list[RevokeRecord]:
        now = self._namespace.now()

        def rows_since(version: int, limit: int) -> list[tuple[Any, ...]]:
            with self._namespace.database.reading() as connection:
                return connection.execute(SQL["revoke_since"], (self._namespace.ns, version, now, limit)).fetchall()

        return readable_since(version, limit, rows_since, _read)

    def expiries(self, *, page: int = 10_000) -> Iterator[list[tuple[str, float]]]:
        """A read transaction a page: a long one would keep the log from being cut."""
        last, now = "", self._namespace.now()
        while True:
            with self._namespace.database.reading() as connection:
                found = connection.execute(SQL["revoke_expiries"], (self._namespace.ns, last, now, page)).fetchall()
            if not found:
                return
            yield found
            last = found[-1][0]

    def version(self) -> int:
        with self._namespace.database.reading() as connection:
            return self._namespace.last_number(connection, "revoke")

    def prune(self) -> int:
        with self._namespace.database.writing() as connection:
            return connection.execute(SQL["revoke_prune"], (self._namespace.ns, self._namespace.now())).rowcount

    def _row(self, record: RevokeRecord) -> tuple[int, str, int, float | None, bytes]:
        expires_at = None if record.expires_at is None else record.expires_at.timestamp()
        return (self._namespace.ns, record.task_id, record.version, expires_at, msgspec.json.encode(record))


def _read(row: tuple[Any, ...]) -> RevokeRecord:
    """With the version that it was found by: the record may say another, if somebody has written it by hand."""
    version, text = row
    record = _decode(text)
    if record.version == version:
        return record
    return msgspec.structs.replace(record, version=msgspec.convert(version, int))


def _record(request: RevokeRequest, version: int, now: float) -> RevokeRecord:
    lifetime = request.expires_seconds
    return request.stored(version, moment(now), None if lifetime is None else moment(now + lifetime))
