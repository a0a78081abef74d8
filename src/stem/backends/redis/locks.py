"""Locks on Redis: a key each, which expires with the lock."""

from stem.backends.redis.space import Space, milliseconds
from stem.contracts.locks import Locks


class RedisLocks(Locks):
    def __init__(self, space: Space) -> None:
        self._space = space

    def acquire(self, name: str, *, owner: str, ttl_seconds: float) -> int | None:
        return int(self._space.run("lock_acquire", _given(name, owner, ttl_seconds))) or None

    def renew(self, name: str, *, owner: str, ttl_seconds: float) -> bool:
        return bool(self._space.run("lock_renew", _given(name, owner, ttl_seconds)))

    def release(self, name: str, *, owner: str) -> bool:
        return bool(self._space.run("lock_renew", _given(name, owner, 0.0)))

    def owner(self, name: str) -> str | None:
        found: bytes | None = self._space.link.call("HGET", self._space.key(f"lock:{name}"), "owner")
        return None if found is None else found.decode()


def _given(name: str, owner: str, ttl_seconds: float) -> dict[str, str | int]:
    return {"name": name, "owner": owner, "ttl": milliseconds(ttl_seconds)}
