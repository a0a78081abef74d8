"""What was counted of each minute, in an SQLite file."""

from collections.abc import Iterator, Sequence

from stem.backends.sqlite.space import Space
from stem.backends.sqlite.statements import SQL
from stem.contracts.rollups import Cell, Rollups


class SqliteRollups(Rollups):
    def __init__(self, space: Space) -> None:
        self._space = space

    def _put(self, cells: Sequence[Cell]) -> None:
        with self._space.file.writing() as connection:
            connection.executemany(SQL["rollup_put"], [(self._space.ns, *cell) for cell in cells])

    def _read(self, since: int, until: int) -> Iterator[str | bytes]:
        with self._space.file.reading() as connection:
            rows = connection.execute(SQL["rollup_read"], (self._space.ns, since, until)).fetchall()
        return (body for (body,) in rows)
