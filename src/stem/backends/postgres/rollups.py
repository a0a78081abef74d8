"""Keep the figures of each minute in Postgres."""

from collections.abc import Iterator, Sequence

from stem.backends.postgres.namespace import PostgresNamespace
from stem.contracts.rollups import RollupCell, Rollups


class PostgresRollups(Rollups):
    def __init__(self, namespace: PostgresNamespace) -> None:
        self._namespace = namespace

    def _put(self, cells: Sequence[RollupCell]) -> None:
        minutes, digests, bodies = (list(column) for column in zip(*cells, strict=True))
        self._namespace.query("rollup_put", minutes=minutes, digests=digests, bodies=bodies)

    def _read(self, since: int, until: int) -> Iterator[str | bytes]:
        return (body for (body,) in self._namespace.query("rollup_read", since=since, until=until))
