"""Keep locks in Postgres: rows with an expiry, so that they outlive connections and work through a pooler."""

from stem.backends.postgres.namespace import PostgresNamespace
from stem.contracts.locks import Locks


class PostgresLocks(Locks):
    def __init__(self, namespace: PostgresNamespace) -> None:
        self._namespace = namespace

    def acquire(self, name: str, *, owner: str, ttl_seconds: float) -> int | None:
        fence: int | None = self._namespace.call("acquire", name, owner, ttl_seconds)[0][0]
        return fence

    def renew(self, name: str, *, owner: str, ttl_seconds: float) -> bool:
        return bool(self._namespace.query("lock_renew", name=name, owner=owner, ttl=ttl_seconds))

    def release(self, name: str, *, owner: str) -> bool:
        return bool(self._namespace.query("lock_release", name=name, owner=owner))

    def owner(self, name: str) -> str | None:
        rows = self._namespace.query("lock_owner", name=name)
        return str(rows[0][0]) if rows else None
