"""What probes ask of a worker or a scheduler."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from stem.core.delivery import Depth
from stem.telemetry.metrics import Metrics


class Probed(Protocol):
    """Safe from any thread. Nothing here waits, except `depths`."""

    @property
    def metrics(self) -> Metrics | None:
        """None while it is starting."""

    def liveness(self) -> str:
        """Say why only a restart helps; empty if it is alive."""

    def readiness(self) -> dict[str, Any]:
        """Return `ready`, `state` and what they are derived from."""

    def depths(self, queues: Sequence[str]) -> Mapping[str, Depth]:
        """Count the tasks of these queues, or of its own if none are named. Raises StemError."""
