"""Keep worker heartbeats in Postgres."""

from stem.backends.postgres.codec.text_columns import json_text
from stem.backends.postgres.namespace import PostgresNamespace
from stem.contracts.steering.heartbeats import Heartbeats
from stem.core.heartbeat import Heartbeat, Pulse, read_heartbeat


class PostgresHeartbeats(Heartbeats):
    def __init__(self, namespace: PostgresNamespace) -> None:
        self._namespace = namespace

    def beat(self, heartbeat: Heartbeat, *, ttl_seconds: float) -> None:
        body = json_text(heartbeat)
        self._namespace.query("heartbeat_put", worker=heartbeat.worker_id, ttl=ttl_seconds, body=body)

    def all(self) -> list[Pulse]:
        found = ((read_heartbeat(body), age) for body, age in self._namespace.query("heartbeats"))
        return [Pulse(beat, age) for beat, age in found if beat is not None]

    def forget(self, worker_id: str) -> bool:
        rows = self._namespace.query("heartbeat_delete", worker=worker_id)
        return bool(rows and rows[0][0])
