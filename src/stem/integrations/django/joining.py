"""Makes what is enqueued inside `transaction.atomic()` part of that transaction."""

from collections.abc import Sequence
from functools import partial

import msgspec
from django.db import connections, transaction

from stem.client.store_connection import StoreConnection
from stem.contracts.store import Store
from stem.core.envelope import Push, Receipt
from stem.integrations.django import databases


class DjangoStoreConnection(StoreConnection):
    """Enqueues with the transaction that is open in this thread, if there is one.

    Where the store is the database of the transaction, tasks are rows of it: they are there with the commit, or not at all.
    Where it is another one, they are sent right after the commit; a crash between the two loses them.
    """

    alias = "default"
    follows_database = False  # nothing else names the store

    @property
    def store(self) -> Store:
        if (
            self.follows_database
            and databases.is_of_tests(self.alias)
            and self.settings.broker_url != databases.OF_TESTS
        ):
            self.close()
            self.settings = msgspec.structs.replace(self.settings, broker_url=databases.OF_TESTS)
            self._placed = None
        return super().store

    @property
    def is_in_transaction(self) -> bool:
        return self.eager_worker is None and connections[self.alias].in_atomic_block

    @property
    def shares_database(self) -> bool:
        """Whether tasks are kept in the database of the transactions."""
        return databases.is_same(self.settings.broker_url, self.alias)

    def push_alone(self, pushes: Sequence[Push]) -> list[Receipt]:
        if not self.is_in_transaction:
            return super().push_alone(pushes)
        if self.shares_database:
            databases.check_tables(self.alias)
            return self.store.broker.push(pushes, connection=connections[self.alias])
        transaction.on_commit(partial(super().push_alone, list(pushes)), using=self.alias)
        return [Receipt(push.envelope.id, created=True) for push in pushes]
