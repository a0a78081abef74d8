"""Keep worker heartbeats in an SQLite file."""

import msgspec

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.contracts.steering.heartbeats import Heartbeats
from stem.core.heartbeat import Heartbeat, Pulse, read_heartbeat


class SqliteHeartbeats(Heartbeats):
    def __init__(self, namespace: SqliteNamespace) -> None:
        self._namespace = namespace

    def beat(self, heartbeat: Heartbeat, *, ttl_seconds: float) -> None:
        now = self._namespace.now()
        row = (self._namespace.ns, heartbeat.worker_id, msgspec.json.encode(heartbeat), now, now + ttl_seconds)
        with self._namespace.database.writing() as connection:
            connection.execute(SQL["heartbeat_put"], row)

    def all(self) -> list[Pulse]:
        now = self._namespace.now()
        with self._namespace.database.reading() as connection:
            rows = connection.execute(SQL["heartbeat_all"], (self._namespace.ns, now)).fetchall()
        found = ((read_heartbeat(text), at) for text, at in rows)
        return [Pulse(beat, max(0.0, now - at)) for beat, at in found if beat is not None]

    def forget(self, worker_id: str) -> bool:
        with self._namespace.database.writing() as connection:
            rows = connection.execute(SQL["heartbeat_forget"], (self._namespace.ns, worker_id)).fetchall()
        return bool(rows) and bool(rows[0][0] > self._namespace.now())
