"""The metrics of a worker."""

from stem.control.responder import Responder
from stem.runtime.metrics import COMMANDS, REVOKES, TASKS, WorkerMetrics
from stem.worker.wiring import Services


def measures(services: Services, responder: Responder) -> WorkerMetrics:
    pool = services.pool
    return WorkerMetrics(
        attributes={"stem.worker.id": services.settings.name, "stem.namespace": services.store.namespace},
        gauges={
            "stem.worker.concurrency": lambda: pool.concurrency,
            "stem.worker.inflight": lambda: len(pool.running),
            "stem.worker.reserved": lambda: max(0, pool.load - len(pool.running)),
            "stem.worker.revoked": lambda: len(services.revokes.revoked),
        },
        counters={
            TASKS: lambda: dict(services.settler.counters),
            COMMANDS: lambda: responder.counts,
            REVOKES: lambda: {"ignored": services.revokes.ignored},
        },
    )
