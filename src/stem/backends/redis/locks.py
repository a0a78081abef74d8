"""Keep locks on Redis: one key per lock, which expires with it."""

from stem.backends.redis.namespace import RedisNamespace, milliseconds
from stem.contracts.locks import Locks


class RedisLocks(Locks):
    def __init__(self, namespace: RedisNamespace) -> None:
        self._namespace = namespace

    def acquire(self, name: str, *, owner: str, ttl_seconds: float) -> int | None:
        return int(self._namespace.run("lock_acquire", _given(name, owner, ttl_seconds))) or None

    def renew(self, name: str, *, owner: str, ttl_seconds: float) -> bool:
        return bool(self._namespace.run("lock_renew", _given(name, owner, ttl_seconds)))

    def release(self, name: str, *, owner: str) -> bool:
        return bool(self._namespace.run("lock_renew", _given(name, owner, 0.0)))

    def owner(self, name: str) -> str | None:
        found: bytes | None = self._namespace.client.call("HGET", self._namespace.key(f"lock:{name}"), "owner")
        return None if found is None else found.decode()


def _given(name: str, owner: str, ttl_seconds: float) -> dict[str, str | int]:
    return {"name": name, "owner": owner, "ttl": milliseconds(ttl_seconds)}
