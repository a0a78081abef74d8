"""The command line of Stem with metrics that count nothing, to measure what they cost. Other counters are off by settings."""

import sys

from stem.telemetry import timed_store
from stem.worker.services.metrics import TaskMetrics

timed_store.timed_store = lambda store, _metrics: store
TaskMetrics.started = TaskMetrics.ended = lambda *_: None  # type: ignore[method-assign]

if __name__ == "__main__":
    from stem.cli.main import main

    sys.exit(main())
