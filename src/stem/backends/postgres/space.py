"""What the seams of one Postgres store share."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from stem.backends.postgres.bell import Bell, News
from stem.backends.postgres.exchange import Cells, Statement
from stem.backends.postgres.listener import Listeners
from stem.backends.postgres.speaking import Row, Speaking
from stem.backends.postgres.statements import ask, call, numbered
from stem.contracts.store import Capabilities
from stem.core.config import Retention

if TYPE_CHECKING:
    from stem.backends.postgres.link import Link

CAPABILITIES = Capabilities(
    is_durable=True,
    crosses_processes=True,
    crosses_machines=True,
    joins_transactions=True,
    joins_async_transactions=True,
)


@cache
def flushing(schema: str) -> Statement:
    return Statement(ask("flush", schema), ())


@dataclass(frozen=True, slots=True)
class Corner:
    """All that is needed by seams that only ask and tell."""

    link: Speaking
    namespace: str
    bell: Bell
    listeners: Listeners

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

    def tell(self, news: News) -> None:
        self.bell.ring(news)


@dataclass(frozen=True, slots=True)
class Space(Corner):
    link: "Link"
    retention: Retention

    def quick(self, function: str, *values: str, timeout_seconds: float | None = None) -> Cells:
        """A function of sql/verbs with plain texts, for less of the client's time."""
        query = numbered(function, len(values) + 1, self.schema)
        return self.link.cells(Statement(query, (self.namespace, *values)), timeout_seconds=timeout_seconds)

    def flush(self) -> None:
        """What we have seen is on disk when this returns."""
        self.link.cells(flushing(self.schema))
