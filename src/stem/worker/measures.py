"""What a worker has to tell whoever collects metrics."""

from typing import TYPE_CHECKING

from stem.runtime.metrics import COMMANDS, REVOKES, TASKS, Source

if TYPE_CHECKING:
    from stem.worker.parts import Parts


def measures(parts: "Parts") -> Source:
    pool = parts.pool
    return Source(
        attributes={"stem.worker.id": parts.settings.name, "stem.namespace": parts.store.namespace},
        gauges={
            "stem.worker.concurrency": lambda: pool.concurrency,
            "stem.worker.inflight": lambda: len(pool.running),
            "stem.worker.reserved": lambda: max(0, pool.load - len(pool.running)),
            "stem.worker.revoked": lambda: len(parts.marks.revoked),
        },
        counters={
            TASKS: lambda: dict(parts.settler.counters),
            COMMANDS: lambda: parts.responder.counts,
            REVOKES: lambda: {"ignored": parts.marks.ignored},
        },
    )
