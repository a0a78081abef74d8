"""Keep the figures of each minute on Redis: one hash per minute, which expires with it."""

from collections.abc import Iterator, Sequence

from stem.backends.redis.namespace import RedisNamespace, milliseconds
from stem.contracts.rollups import RollupCell, Rollups

STRETCH = 10  # minutes a script call


class RedisRollups(Rollups):
    def __init__(self, namespace: RedisNamespace) -> None:
        self._namespace = namespace

    def _put(self, cells: Sequence[RollupCell]) -> None:
        kept = milliseconds(self._namespace.retention.events_seconds)
        self._namespace.run("rollup_put", {"kept": kept, "cells": cells})

    def _read(self, since: int, until: int) -> Iterator[str | bytes]:
        more = 1
        while more:
            given = {"since": since, "until": until, "stretch": STRETCH}
            more, since, *bodies = self._namespace.run("rollup_read", given)
            yield from bodies
