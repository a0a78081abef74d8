"""Share between the parts of one Postgres store: the client, the namespace, notifications and retention."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from stem.backends.postgres.connection.connections import PostgresClient
from stem.backends.postgres.connection.deadline_connection import Row
from stem.backends.postgres.connection.pq_exec import Cells, Statement
from stem.backends.postgres.notify.listener import Listeners
from stem.backends.postgres.notify.notifier import Notification, Notifier
from stem.backends.postgres.statements import call, numbered, query_text
from stem.contracts.store import Capabilities
from stem.core.settings.app import Retention

CAPABILITIES = Capabilities(
    is_durable=True,
    crosses_processes=True,
    crosses_machines=True,
    joins_transactions=True,
    joins_async_transactions=True,
)


@cache
def flushing(schema: str) -> Statement:
    return Statement(query_text("flush", schema), ())


@dataclass(frozen=True, slots=True)
class PostgresNamespace:
    client: PostgresClient
    name: str
    notifier: Notifier
    listeners: Listeners
    retention: Retention

    @property
    def schema(self) -> str:
        return self.client.address.schema

    def query(self, name: str, /, *, timeout_seconds: float | None = None, **values: Any) -> list[Row]:
        """Execute one statement of sql/queries in a transaction of its own."""
        query = query_text(name, self.schema)
        return self.client.rows(query, {"ns": self.name, **values}, timeout_seconds=timeout_seconds)

    def call(self, function: str, *values: Any) -> list[Row]:
        """Call one function of sql/functions in a transaction of its own."""
        query = call(function, len(values) + 1, self.schema)
        return self.client.rows(query, (self.name, *values))

    def notify(self, change: Notification) -> None:
        self.notifier.notify(change)

    def call_as_text(self, function: str, *values: str, timeout_seconds: float | None = None) -> Cells:
        """Call one function of sql/functions with texts, and return texts: it takes a third of the client's time."""
        query = numbered(function, len(values) + 1, self.schema)
        return self.client.cells(Statement(query, (self.name, *values)), timeout_seconds=timeout_seconds)

    def flush(self) -> None:
        """Return when all that this process has seen is on disk."""
        self.client.cells(flushing(self.schema))
