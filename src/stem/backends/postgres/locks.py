"""Locks in Postgres: rows with an end, so that they outlive connections and work through a pooler."""

from stem.backends.postgres.space import Space
from stem.contracts.locks import Locks


class PostgresLocks(Locks):
    def __init__(self, space: Space) -> None:
        self._space = space

    def acquire(self, name: str, *, owner: str, ttl_seconds: float) -> int | None:
        fence: int | None = self._space.call("acquire", name, owner, ttl_seconds)[0][0]
        return fence

    def renew(self, name: str, *, owner: str, ttl_seconds: float) -> bool:
        return bool(self._space.ask("lock_renew", name=name, owner=owner, ttl=ttl_seconds))

    def release(self, name: str, *, owner: str) -> bool:
        return bool(self._space.ask("lock_release", name=name, owner=owner))

    def owner(self, name: str) -> str | None:
        rows = self._space.ask("lock_owner", name=name)
        return str(rows[0][0]) if rows else None
