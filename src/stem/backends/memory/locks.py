"""Locks in memory."""

from stem.backends.memory.space import Space
from stem.contracts.locks import Locks


class MemoryLocks(Locks):
    def __init__(self, space: Space) -> None:
        self._space = space

    def acquire(self, name: str, *, owner: str, ttl_seconds: float) -> int | None:
        with self._space.changed:
            now = self._space.clock()
            holder, fence, until = self._space.locks.get(name, ("", 0, 0.0))
            if until > now and holder != owner:
                return None
            if until <= now:
                fence = self._space.number("lock")
            self._space.locks[name] = (owner, fence, now + ttl_seconds)
            return fence

    def renew(self, name: str, *, owner: str, ttl_seconds: float) -> bool:
        with self._space.changed:
            if self._owner(name) != owner:
                return False
            _, fence, _ = self._space.locks[name]
            self._space.locks[name] = (owner, fence, self._space.clock() + ttl_seconds)
            return True

    def release(self, name: str, *, owner: str) -> bool:
        with self._space.changed:
            if self._owner(name) != owner:
                return False
            del self._space.locks[name]
            return True

    def owner(self, name: str) -> str | None:
        with self._space.changed:
            return self._owner(name)

    def _owner(self, name: str) -> str | None:
        owner, _, until = self._space.locks.get(name, ("", 0, 0.0))
        return owner if until > self._space.clock() else None
