"""Keep the event log on Redis: a stream whose entries are chunks of events, named by the offset of their last event."""

import msgspec

from stem.backends.redis.codec import event_chunk
from stem.backends.redis.namespace import RedisNamespace
from stem.contracts.events import Events
from stem.core.event import Event
from stem.core.lifecycle import EventKind

CHUNKS = 50  # read in one call


class RedisEvents(Events):
    def __init__(self, namespace: RedisNamespace) -> None:
        self._namespace = namespace

    def read(self, after: str | None, *, limit: int) -> list[Event]:
        _, floor = self._ends(None)
        seen = max(int(after or 0), floor)
        found: list[Event] = []
        while len(found) < limit:
            count = min(CHUNKS, limit - len(found))
            chunks = self._namespace.client.call(
                "XRANGE", self._namespace.key("events"), f"{seen + 1}-0", "+", "COUNT", count
            )
            for id, (_, packed) in chunks:
                last = int(id.partition(b"-")[0])
                found += event_chunk.events(last, packed, seen, limit - len(found))
                seen = last
            if len(chunks) < count:
                break
        return found

    def head(self) -> str | None:
        offset, floor = self._ends(None)
        return str(offset) if offset > floor else None

    def wait(self, after: str | None, *, timeout_seconds: float) -> bool:
        seen = int(after or 0)

        def look(left: float) -> bool:
            offset, floor = self._ends(left)
            return offset > max(seen, floor)

        return bool(self._namespace.wait(["events"], look, timeout_seconds))

    def _note(self, kind: EventKind, worker: str, data: msgspec.Raw) -> None:
        self._namespace.run("note", {"kind": kind.value, "worker": worker, "data": bytes(data).decode()})

    def _ends(self, within: float | None) -> tuple[int, int]:
        """The newest offset given, and the newest one dropped."""
        offset, floor = self._namespace.client.call(
            "HMGET", self._namespace.key("numbers"), "offset", "floor", within=within
        )
        return int(offset or 0), int(floor or 0)
