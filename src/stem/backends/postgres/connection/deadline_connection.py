"""A psycopg connection whose calls end at a deadline."""

from collections.abc import Generator
from time import monotonic
from typing import Any, TypeVar

import psycopg

from stem.backends.postgres.connection.errors import DeadlinePassed
from stem.backends.postgres.connection.pq_exec import PqExecutor, PreparedStatements

T = TypeVar("T")
Row = tuple[Any, ...]

_CHECK_SECONDS = 0.05  # how finely deadlines are kept


class DeadlineConnection(psycopg.Connection[Row]):
    """A connection whose calls end at a deadline, also if the server is frozen and the network says nothing."""

    deadline: float | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pq = PqExecutor(self.pgconn, self.info.encoding, PreparedStatements())

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        if self.deadline is None:
            return super().wait(gen, *args, **kwargs)
        return super().wait(self._until_deadline(gen), interval=_CHECK_SECONDS)

    def _until_deadline(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and self.deadline is not None and monotonic() >= self.deadline:
                    raise DeadlinePassed("no answer by the deadline")
                wanted = gen.send(ready)
        except StopIteration as end:
            value: T = end.value
            return value
