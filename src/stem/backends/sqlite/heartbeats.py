"""Worker heartbeats in an SQLite file."""

import msgspec

from stem.backends.sqlite.space import Space
from stem.backends.sqlite.statements import SQL
from stem.contracts.heartbeats import Heartbeats
from stem.core.heartbeat import Heartbeat, Pulse, read_heartbeat


class SqliteHeartbeats(Heartbeats):
    def __init__(self, space: Space) -> None:
        self._space = space

    def beat(self, heartbeat: Heartbeat, *, ttl_seconds: float) -> None:
        now = self._space.now()
        row = (self._space.ns, heartbeat.worker_id, msgspec.json.encode(heartbeat), now, now + ttl_seconds)
        with self._space.file.writing() as connection:
            connection.execute(SQL["heartbeat_put"], row)

    def all(self) -> list[Pulse]:
        now = self._space.now()
        with self._space.file.reading() as connection:
            rows = connection.execute(SQL["heartbeat_all"], (self._space.ns, now)).fetchall()
        found = ((read_heartbeat(text), at) for text, at in rows)
        return [Pulse(beat, max(0.0, now - at)) for beat, at in found if beat is not None]

    def forget(self, worker_id: str) -> bool:
        with self._space.file.writing() as connection:
            rows = connection.execute(SQL["heartbeat_forget"], (self._space.ns, worker_id)).fetchall()
        return bool(rows) and bool(rows[0][0] > self._space.now())
