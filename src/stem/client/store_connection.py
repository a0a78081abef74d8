"""The app's connection to its store: opened on first use, shared by threads, reopened after a fork."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from weakref import WeakSet

from stem.client.middleware import Hooks
from stem.client.send.announcing import announced
from stem.client.send.retry import retry_while_unavailable
from stem.client.send.watcher import Watcher
from stem.client.stores import open_store, revokes_of, with_absolute_paths
from stem.contracts.staging import Part
from stem.contracts.steering.revokes import Revokes
from stem.contracts.store import Store
from stem.core.envelope import Push, Receipt
from stem.core.errors import UsageError
from stem.core.settings.app import Settings, masked
from stem.runtime.clock import Clock
from stem.runtime.keys import Keyring


class StoreConnection:
    """Holds the open store, keys, clock and middleware of one app."""

    def __init__(self, settings: Settings, keyring: Keyring, clock: Clock) -> None:
        self.settings = settings
        self.keyring = keyring
        self.clock = clock
        self.hooks = Hooks()
        self.longest_wait_seconds: float | None = None  # 0 in eager tests: nothing runs during a wait
        self.before_wait: Callable[[], object] = _nothing
        self.eager_worker: str | None = None  # in eager tests: the one that runs everything
        self.is_served_here = False  # a worker runs in this process
        self._placed: Settings | None = None  # settings with absolute paths, fixed when the store is first opened
        self._store: Store | None = None
        self._watcher: Watcher | None = None
        self._after_push: Callable[[], object] | None = None
        self._lock = Lock()
        _connections.add(self)

    @property
    def store(self) -> Store:
        store = self._store  # read once: another thread may close the app meanwhile
        if store is not None:
            return store
        with self._lock:
            if self._store is None:
                self._placed = self._placed or with_absolute_paths(self.settings)
                self._store = open_store(self._placed)
            return self._store

    @property
    def is_open(self) -> bool:
        return self._store is not None

    def has_open(self, store: Store) -> bool:
        """Return whether this store is still the open one: not after `close`, nor in a forked child."""
        return self._store is store

    @property
    def runs_tasks_here(self) -> bool:
        return self.is_served_here or self._after_push is not None

    @property
    def watcher(self) -> Watcher:
        store = self.store
        with self._lock:
            if self._watcher is None:
                self._watcher = Watcher(store.results)
            return self._watcher

    def push(self, pushes: Sequence[Push], connection: object | None = None) -> list[Receipt]:
        """Store calls. Retries while the store is unavailable, which is safe: an id is stored only once."""
        return announced(pushes, lambda calls: self._push(calls, connection))

    def _push(self, pushes: Sequence[Push], connection: object | None) -> list[Receipt]:
        if self._after_push is not None:  # eager: the replacement store is memory and joins no transaction
            receipts = self.store.broker.push(pushes)
            self._after_push()
            return receipts
        if connection is None:
            return self.push_alone(pushes)
        _check_connection(self.store, connection)
        return self.store.broker.push(pushes, connection=connection)

    def push_alone(self, pushes: Sequence[Push]) -> list[Receipt]:
        """Store calls for which the caller has named no connection."""
        return retry_while_unavailable(lambda: self.store.broker.push(pushes), self.settings.timeout_seconds)

    @property
    def is_in_transaction(self) -> bool:
        """Whether calls that name no connection join a transaction that is open here, as an integration may arrange."""
        return False

    def promote(self, job: str, parts: Sequence[Part], pushes: Sequence[Push]) -> None:
        """Make staged calls tasks, with further pushes. Can be repeated, as a push can."""
        staging = self.store.staging
        if self._after_push is None:
            retry_while_unavailable(lambda: staging.promote(job, parts, pushes=pushes), self.settings.timeout_seconds)
        else:
            staging.promote(job, parts, pushes=pushes)
            self._after_push()

    def after_event(self) -> None:
        """Run what an event made due, in eager mode."""
        if self._after_push is not None:
            self._after_push()

    async def apush(self, pushes: Sequence[Push], connection: object | None = None) -> list[Receipt]:
        import asyncio

        if connection is None:
            return await asyncio.to_thread(self.push, pushes)
        from stem.contracts.async_connection import AsyncConnection, is_async

        if not is_async(connection):
            return self.push(pushes, connection)  # the caller's connection belongs to the caller's thread
        on_its_loop = AsyncConnection(connection, asyncio.get_running_loop())
        pushing = asyncio.ensure_future(asyncio.to_thread(self.push, pushes, on_its_loop))
        try:
            return await asyncio.shield(pushing)
        except asyncio.CancelledError:
            on_its_loop.give_up()
            await asyncio.wait([pushing])  # the caller rolls back next, and nothing may be written after that
            if not pushing.cancelled():
                pushing.exception()  # retrieved, so that asyncio does not log it
            raise

    @contextmanager
    def revokes(self) -> Iterator[Revokes]:
        """Yield the store of revokes and pauses: the app's own, or the one that the settings name for them."""
        store, settings = self.store, self._placed or self.settings
        if self._after_push is not None:
            yield store.revokes
            return
        with revokes_of(store, settings) as revokes:
            yield revokes

    def close(self) -> None:
        with self._lock:
            watcher, self._watcher = self._watcher, None
            # In eager mode the replacement store stays: without it the next call would use the app's own.
            store = self._store if self._after_push is None else None
            if store is not None:
                self._store = None
        if watcher is not None:
            watcher.close()
        if store is not None:
            store.upkeep.close()

    @contextmanager
    def replaced(
        self,
        store: Store,
        clock: Clock,
        after_push: Callable[[], object],
        before_wait: Callable[[], object],
        worker: str,
    ) -> Iterator[None]:
        """Use another store and clock inside the `with` block. The open store stays open."""
        names = ("_store", "_watcher", "clock", "longest_wait_seconds", "before_wait", "_after_push", "eager_worker")
        before, pid = {name: getattr(self, name) for name in names}, os.getpid()
        self._store, self._watcher, self.clock = store, None, clock
        self.longest_wait_seconds, self.before_wait, self._after_push = 0.0, before_wait, after_push
        self.eager_worker = worker
        try:
            yield
        finally:
            self.close()
            store.upkeep.close()
            for name, value in before.items():
                setattr(self, name, value)
            if pid != os.getpid():
                self._forget()

    def _forget(self) -> None:
        """Drop inherited connections in a forked child. A replacement store is memory and was copied by the fork."""
        self._watcher = None
        self._lock = Lock()
        if self._after_push is None and self._store is not None:
            _inherited.append(self._store)
            self._store = None


def _check_connection(store: Store, connection: object) -> None:
    from stem.contracts.async_connection import AsyncConnection, is_async

    can, where = store.capabilities, masked(store.url)
    if not can.joins_transactions:
        raise UsageError(
            f"The store {where} cannot join a transaction; enqueue without connection= after the commit, "
            "or keep the tasks in the Postgres or SQLite database of the transaction."
        )
    if is_async(connection):
        raise UsageError(
            f"connection= got an async connection ({type(connection).__name__}), which only async code can use; "
            "write: await task.options(connection=…).aenqueue(…)."
        )
    if isinstance(connection, AsyncConnection) and not can.joins_async_transactions:
        raise UsageError(
            f"The store {where} cannot join the transaction of an async connection "
            f"({type(connection.connection).__name__}); pass a plain one, such as sqlite3's, or enqueue after the commit."
        )


def _nothing() -> None: ...


_connections: "WeakSet[StoreConnection]" = WeakSet()
# A child must not close its parent's connections, and dropping the last reference would: they share their sockets.
_inherited: list[Store] = []


def _after_fork() -> None:
    for connection in list(_connections):
        connection._forget()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_after_fork)
