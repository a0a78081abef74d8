"""Worker heartbeats in Postgres."""

from stem.backends.postgres.columns import json_text
from stem.backends.postgres.space import Corner
from stem.contracts.heartbeats import Heartbeats
from stem.core.heartbeat import Heartbeat, Pulse, read_heartbeat


class PostgresHeartbeats(Heartbeats):
    def __init__(self, space: Corner) -> None:
        self._space = space

    def beat(self, heartbeat: Heartbeat, *, ttl_seconds: float) -> None:
        body = json_text(heartbeat)
        self._space.ask("beat", worker=heartbeat.worker_id, ttl=ttl_seconds, body=body)

    def all(self) -> list[Pulse]:
        found = ((read_heartbeat(body), age) for body, age in self._space.ask("heartbeats"))
        return [Pulse(beat, age) for beat, age in found if beat is not None]

    def forget(self, worker_id: str) -> bool:
        rows = self._space.ask("forget", worker=worker_id)
        return bool(rows and rows[0][0])
