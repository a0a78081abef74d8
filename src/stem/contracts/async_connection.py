"""A connection of asyncio code, used from a thread: every call on it runs on its own loop, whose coroutine waits meanwhile."""

from collections.abc import Coroutine
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeVar

from stem.core.errors import UsageError

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


@dataclass(slots=True)
class AsyncConnection:
    connection: Any
    loop: "asyncio.AbstractEventLoop"
    _is_given_up: bool = field(default=False, init=False)  # this and the next are of the loop's thread alone
    _statement: "asyncio.Task[Any] | None" = field(default=None, init=False)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """From another thread than the loop's."""
        import asyncio  # here: a command that is over soon does without it

        return asyncio.run_coroutine_threadsafe(self._guarded(call), self.loop).result()

    def give_up(self) -> None:
        """On the loop: the caller was cancelled. What runs is cancelled as well, and nothing more begins."""
        self._is_given_up = True
        if self._statement is not None:
            self._statement.cancel()

    async def _guarded(self, call: Coroutine[Any, Any, T]) -> T:
        import asyncio

        if self._is_given_up:
            call.close()
            raise UsageError("The enqueue was cancelled; roll its transaction back, or enqueue again.")
        self._statement = asyncio.current_task()
        try:
            return await call
        finally:
            self._statement = None


def is_async(connection: object) -> bool:
    """psycopg's AsyncConnection, SQLAlchemy's AsyncConnection and AsyncSession, asyncpg's and aiosqlite's connections."""
    return iscoroutinefunction(getattr(connection, "execute", None))
