"""A connection of asyncio code, used from a thread: every call on it runs on its own loop, whose coroutine waits meanwhile."""

from collections.abc import Coroutine
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AsyncConnection:
    connection: Any
    loop: "asyncio.AbstractEventLoop"

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """From another thread than the loop's."""
        import asyncio  # here: a command that is over soon does without it

        return asyncio.run_coroutine_threadsafe(call, self.loop).result()


def is_async(connection: object) -> bool:
    """psycopg's AsyncConnection, SQLAlchemy's AsyncConnection and AsyncSession, asyncpg's and aiosqlite's connections."""
    return iscoroutinefunction(getattr(connection, "execute", None))
