"""What seams that ask and tell need of whatever carries their words to the server."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any

from psycopg.pq.abc import PGconn

from stem.backends.postgres.address import Address

Row = tuple[Any, ...]


class Speaking(ABC):
    address: Address
    timeout_seconds: float

    @property
    @abstractmethod
    def is_closed(self) -> bool: ...

    @abstractmethod
    def rows(self, query: str | bytes, values: Any = None, *, timeout_seconds: float | None = None) -> list[Row]:
        """Execute one statement as one transaction; what it returns. Raises StoreUnavailable, StoreRefused, UsageError."""

    @abstractmethod
    def listening(self, channel: str) -> AbstractContextManager[PGconn]:
        """A connection that hears what is told there from now on. Raises StoreUnavailable, StoreRefused, and the driver's
        errors once it is open."""

    @abstractmethod
    def close(self) -> None: ...
