"""What was counted of each minute, on Redis: a hash a minute, which expires with it."""

from collections.abc import Iterator, Sequence

from stem.backends.redis.space import Space, milliseconds
from stem.contracts.rollups import Cell, Rollups

STRETCH = 10  # minutes a script call


class RedisRollups(Rollups):
    def __init__(self, space: Space) -> None:
        self._space = space

    def _put(self, cells: Sequence[Cell]) -> None:
        kept = milliseconds(self._space.retention.events_seconds)
        self._space.run("rollup_put", {"kept": kept, "cells": cells})

    def _read(self, since: int, until: int) -> Iterator[str | bytes]:
        more = 1
        while more:
            given = {"since": since, "until": until, "stretch": STRETCH}
            more, since, *bodies = self._space.run("rollup_read", given)
            yield from bodies
