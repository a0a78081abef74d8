"""Find out whether the pool's thread and the fork server behind it still answer."""

import time
from collections.abc import Callable

from stem.worker.pool.isolates import Isolates


class ForkServerPing:
    """`post` makes the pool's thread call something; so a ping that is stuck there counts as well."""

    def __init__(self, isolates: Isolates, post: Callable[[Callable[[], object]], None]) -> None:
        self._isolates = isolates
        self._post = post
        self._posted_at: float | None = None  # None: the pool has sent the ping

    def send(self) -> None:
        """Called at intervals; does nothing while a ping is unanswered."""
        if self._posted_at is None:
            self._posted_at = time.monotonic()
            self._post(self._send)

    @property
    def unanswered_seconds(self) -> float:
        """For how long a ping has waited; 0.0 if it was answered."""
        since = self._posted_at or self._isolates.pinged_at
        return 0.0 if since is None else time.monotonic() - since

    def _send(self) -> None:
        self._posted_at = None
        self._isolates.ping()
