"""Keep the rollups of a period for a while: every open page reads them, and a day of a large fleet takes a second to add up."""

import time
from threading import Lock

from stem.contracts.rollups import MinuteRow
from stem.contracts.store import Store
from stem.observe.rates import Period, read_rows

LEAST_SECONDS = 5.0  # workers write no more often
SHARE = 0.1  # of a step, for longer periods


class RowCache:
    """Safe from any thread. Of several that ask for a period at once, one reads it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rows: dict[tuple[int, int], tuple[float, list[MinuteRow]]] = {}  # with when it is to be read again

    def read(self, store: Store, span: Period) -> list[MinuteRow]:
        key = span.step_seconds, len(span.starts)
        with self._lock:
            due_at, rows = self._rows.get(key, (0.0, []))
            if time.monotonic() >= due_at:
                rows = read_rows(store, span)
                self._rows[key] = time.monotonic() + max(LEAST_SECONDS, span.step_seconds * SHARE), rows
            return rows
