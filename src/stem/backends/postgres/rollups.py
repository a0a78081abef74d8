"""What was counted of each minute, in Postgres."""

from collections.abc import Iterator, Sequence

from stem.backends.postgres.space import Space
from stem.contracts.rollups import Cell, Rollups


class PostgresRollups(Rollups):
    def __init__(self, space: Space) -> None:
        self._space = space

    def _put(self, cells: Sequence[Cell]) -> None:
        minutes, digests, bodies = (list(column) for column in zip(*cells, strict=True))
        self._space.ask("rollup_put", minutes=minutes, digests=digests, bodies=bodies)

    def _read(self, since: int, until: int) -> Iterator[str | bytes]:
        return (body for (body,) in self._space.ask("rollup_read", since=since, until=until))
