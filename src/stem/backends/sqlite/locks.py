"""Locks in an SQLite file."""

from stem.backends.sqlite.space import Space
from stem.backends.sqlite.statements import SQL
from stem.contracts.locks import Locks


class SqliteLocks(Locks):
    def __init__(self, space: Space) -> None:
        self._space = space

    def acquire(self, name: str, *, owner: str, ttl_seconds: float) -> int | None:
        space = self._space
        with space.file.writing() as connection:
            now = space.now()
            row = connection.execute(SQL["lock_get"], (space.ns, name, now)).fetchone()
            if row is not None and row[0] != owner:
                return None
            fence: int = space.take_numbers(connection, "lock") if row is None else row[1]
            connection.execute(SQL["lock_put"], (space.ns, name, owner, fence, now + ttl_seconds))
            return fence

    def renew(self, name: str, *, owner: str, ttl_seconds: float) -> bool:
        with self._space.file.writing() as connection:
            now = self._space.now()
            parameters = (now + ttl_seconds, self._space.ns, name, owner, now)
            return connection.execute(SQL["lock_renew"], parameters).rowcount == 1

    def release(self, name: str, *, owner: str) -> bool:
        with self._space.file.writing() as connection:
            parameters = (self._space.ns, name, owner, self._space.now())
            return connection.execute(SQL["lock_release"], parameters).rowcount == 1

    def owner(self, name: str) -> str | None:
        with self._space.file.reading() as connection:
            row = connection.execute(SQL["lock_get"], (self._space.ns, name, self._space.now())).fetchone()
        return row[0] if row else None
