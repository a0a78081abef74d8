"""What every seam of one Postgres store shares."""

from dataclasses import dataclass
from typing import Any

from stem.backends.postgres.bell import Bell, News
from stem.backends.postgres.exchange import Cells, Statement
from stem.backends.postgres.link import Link, Row
from stem.backends.postgres.listener import Listener
from stem.backends.postgres.statements import ask, call, numbered
from stem.core.config import Retention


@dataclass(frozen=True, slots=True)
class Space:
    link: Link
    namespace: str
    retention: Retention
    bell: Bell
    listener: Listener

    @property
    def schema(self) -> str:
        return self.link.address.schema

    def ask(self, name: str, /, *, timeout_seconds: float | None = None, **values: Any) -> list[Row]:
        """One statement of sql/asks, in a transaction of its own."""
        query = ask(name, self.schema)
        return self.link.rows(query, {"ns": self.namespace, **values}, timeout_seconds=timeout_seconds)

    def call(self, function: str, *values: Any) -> list[Row]:
        """One function of sql/verbs, in a transaction of its own."""
        query = call(function, len(values) + 1, self.schema)
        return self.link.rows(query, (self.namespace, *values))

    def quick(self, function: str, *values: str) -> Cells:
        """The same with plain texts, for less of the client's time."""
        query = numbered(function, len(values) + 1, self.schema)
        return self.link.cells(Statement(query, (self.namespace, *values)))

    def tell(self, news: News) -> None:
        self.bell.ring(news)
