"""Keep locks in memory."""

from stem.backends.memory.state import MemoryState
from stem.contracts.locks import Locks


class MemoryLocks(Locks):
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def acquire(self, name: str, *, owner: str, ttl_seconds: float) -> int | None:
        with self._state.changed:
            now = self._state.clock()
            holder, fence, until = self._state.locks.get(name, ("", 0, 0.0))
            if until > now and holder != owner:
                return None
            if until <= now:
                fence = self._state.number("lock")
            self._state.locks[name] = (owner, fence, now + ttl_seconds)
            return fence

    def renew(self, name: str, *, owner: str, ttl_seconds: float) -> bool:
        with self._state.changed:
            if self._owner(name) != owner:
                return False
            _, fence, _ = self._state.locks[name]
            self._state.locks[name] = (owner, fence, self._state.clock() + ttl_seconds)
            return True

    def release(self, name: str, *, owner: str) -> bool:
        with self._state.changed:
            if self._owner(name) != owner:
                return False
            del self._state.locks[name]
            return True

    def owner(self, name: str) -> str | None:
        with self._state.changed:
            return self._owner(name)

    def _owner(self, name: str) -> str | None:
        owner, _, until = self._state.locks.get(name, ("", 0, 0.0))
        return owner if until > self._state.clock() else None
