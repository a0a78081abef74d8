"""Use an asyncio connection from a thread: every call runs on the connection's own loop, and the thread waits for it."""

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
    """The caller's asyncio connection, and the loop it belongs to."""

    connection: Any
    loop: "asyncio.AbstractEventLoop"
    _is_given_up: bool = field(default=False, init=False)  # this and the next are used in the loop's thread only
    _statement: "asyncio.Task[Any] | None" = field(default=None, init=False)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result. Call from another thread than the loop's."""
        import asyncio  # here: a command that is over soon does without it

        return asyncio.run_coroutine_threadsafe(self._guarded(call), self.loop).result()

    def give_up(self) -> None:
        """Cancel the running statement and start no other, because the caller was cancelled. Call on the loop."""
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
    """For psycopg's AsyncConnection, SQLAlchemy's AsyncConnection and AsyncSession, asyncpg's and aiosqlite's connections."""
    is_asyncpg = (
        type(connection).__module__.partition(".")[0] == "asyncpg"
    )  # its pool's wrappers hide that they are async
    return is_asyncpg or iscoroutinefunction(getattr(connection, "execute", None))
