"""Keep locks in an SQLite file."""

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.contracts.locks import Locks


class SqliteLocks(Locks):
    def __init__(self, namespace: SqliteNamespace) -> None:
        self._namespace = namespace

    def acquire(self, name: str, *, owner: str, ttl_seconds: float) -> int | None:
        namespace = self._namespace
        with namespace.database.writing() as connection:
            now = namespace.now()
            row = connection.execute(SQL["lock_get"], (namespace.ns, name, now)).fetchone()
            if row is not None and row[0] != owner:
                return None
            fence: int = namespace.take_numbers(connection, "lock") if row is None else row[1]
            connection.execute(SQL["lock_put"], (namespace.ns, name, owner, fence, now + ttl_seconds))
            return fence

    def renew(self, name: str, *, owner: str, ttl_seconds: float) -> bool:
        with self._namespace.database.writing() as connection:
            now = self._namespace.now()
            parameters = (now + ttl_seconds, self._namespace.ns, name, owner, now)
            return connection.execute(SQL["lock_renew"], parameters).rowcount == 1

    def release(self, name: str, *, owner: str) -> bool:
        with self._namespace.database.writing() as connection:
            parameters = (self._namespace.ns, name, owner, self._namespace.now())
            return connection.execute(SQL["lock_release"], parameters).rowcount == 1

    def owner(self, name: str) -> str | None:
        with self._namespace.database.reading() as connection:
            row = connection.execute(SQL["lock_get"], (self._namespace.ns, name, self._namespace.now())).fetchone()
        return row[0] if row else None
