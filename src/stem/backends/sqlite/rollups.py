"""Keep the figures of each minute in an SQLite file."""

from collections.abc import Iterator, Sequence

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.contracts.rollups import RollupCell, Rollups


class SqliteRollups(Rollups):
    def __init__(self, namespace: SqliteNamespace) -> None:
        self._namespace = namespace

    def _put(self, cells: Sequence[RollupCell]) -> None:
        with self._namespace.database.writing() as connection:
            connection.executemany(SQL["rollup_put"], [(self._namespace.ns, *cell) for cell in cells])

    def _read(self, since: int, until: int) -> Iterator[str | bytes]:
        with self._namespace.database.reading() as connection:
            rows = connection.execute(SQL["rollup_read"], (self._namespace.ns, since, until)).fetchall()
        return (body for (body,) in rows)
