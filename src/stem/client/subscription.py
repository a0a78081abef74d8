"""Follow the event log of a store from any process: each event once, in order, from a known offset on."""

import logging
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from stem.client.send.retry import retry_while_unavailable
from stem.client.store_connection import StoreConnection
from stem.client.task.options import Duration
from stem.client.task.policy import seconds as checked_seconds
from stem.core.decisions.routing import is_same_or_tenant_queue
from stem.core.errors import StoreUnavailable, UsageError
from stem.core.event import Event
from stem.core.lifecycle import EventKind
from stem.runtime.backoff import Backoff

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger("stem.events")

BATCH = 500
WAIT_SECONDS = 2.0  # of one wait in the store, which an event ends earlier; a closed subscription ends with it


class EventSubscriptions:
    """`app.events`: follow what happens to tasks and workers, whichever process it happens in."""

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection

    def subscribe(
        self,
        *,
        after: str | None = None,
        kinds: Iterable[str] = (),
        task_ids: Iterable[str] = (),
        queues: Iterable[str] = (),
        names: Iterable[str] = (),
        timeout: Duration | None = None,
    ) -> "EventSubscription":
        """Iterate over events as they happen, from this call on.

        `after` continues after the offset of an event; the empty text begins with the oldest event that the store keeps. The
        filters must all match; empty means any. A queue includes its tenants' parts. With `timeout` the iteration ends after
        that long without a matching event. While the store is unavailable, the iteration waits and then goes on where it was.

        Raises UsageError for an unknown kind or offset, StoreUnavailable if the store cannot be reached at the beginning.
        """
        wanted = EventChoice(kinds, task_ids, queues, names)
        seconds = None if timeout is None else checked_seconds("The timeout of a subscription", timeout)
        return EventSubscription(self._connection, wanted, after, seconds)

    def asubscribe(
        self,
        *,
        after: str | None = None,
        kinds: Iterable[str] = (),
        task_ids: Iterable[str] = (),
        queues: Iterable[str] = (),
        names: Iterable[str] = (),
        timeout: Duration | None = None,
    ) -> "AsyncEventSubscription":
        """As `subscribe`, for `async for`; begins when it is first awaited. Waits in a thread of its own."""
        wanted = EventChoice(kinds, task_ids, queues, names)
        seconds = None if timeout is None else checked_seconds("The timeout of a subscription", timeout)
        return AsyncEventSubscription(self._connection, wanted, after, seconds)


class EventChoice:
    """Which events a subscription is for."""

    def __init__(
        self, kinds: Iterable[str], task_ids: Iterable[str], queues: Iterable[str], names: Iterable[str]
    ) -> None:
        self._kinds = frozenset(map(_kind, _several("kinds", kinds)))
        self._task_ids = frozenset(_several("task_ids", task_ids))
        self._queues = frozenset(_several("queues", queues))
        self._names = frozenset(_several("names", names))

    def matches(self, event: Event) -> bool:
        return (
            (not self._kinds or event.kind in self._kinds)
            and (not self._task_ids or event.task_id in self._task_ids)
            and (not self._names or event.name in self._names)
            and (not self._queues or any(is_same_or_tenant_queue(queue, event.queue) for queue in self._queues))
        )


class EventSubscription:
    """An iterator over events. For one thread at a time; `close` may be called from another."""

    def __init__(
        self, connection: StoreConnection, wanted: EventChoice, after: str | None, timeout_seconds: float | None
    ) -> None:
        self._connection = connection
        self._wanted = wanted
        self._timeout_seconds = timeout_seconds
        self._store = connection.store
        self._found: deque[Event] = deque()
        self._backoff = Backoff("following events")
        self._is_closed = False
        # The log is read after `_read_to`; `offset` trails behind it while events wait in `_found`.
        self._read_to = self._beginning(after, connection.settings.timeout_seconds)
        self._offset = self._read_to

    @property
    def offset(self) -> str | None:
        """The place in the log: pass it as `after` to continue behind the event that was returned last. None: the log was
        empty at the beginning, and nothing has happened since."""
        return self._offset

    def close(self) -> None:
        """End the iteration, at the latest after two seconds."""
        self._is_closed = True

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        event = self.take()
        if event is None:
            raise StopIteration
        return event

    def take(self) -> Event | None:
        """Return the next event; None at the end, also after the app was closed."""
        began_at = time.monotonic()
        while not self._is_closed:
            if self._found:
                event = self._found.popleft()
                self._offset = event.offset if self._found else self._read_to
                return event
            left = self._left_seconds(began_at)
            if left <= 0 or not self._connection.has_open(self._store):
                break
            self._look(left)
        return None

    def take_found(self) -> Event | None:
        """Return an event that has been read already, if there is one."""
        return self.take() if self._found else None

    def _look(self, left_seconds: float) -> None:
        """Read on, or wait a moment for something to read."""
        events = self._store.events
        try:
            batch = events.read(self._read_to, limit=BATCH)
            if not batch:
                events.wait(self._read_to, timeout_seconds=min(WAIT_SECONDS, left_seconds))
            self._backoff.succeeded()
        except StoreUnavailable as error:
            self._wait_for_store(error)
            return
        if batch:
            self._read_to = batch[-1].offset
            self._found.extend(event for event in batch if self._wanted.matches(event))
            if not self._found:
                self._offset = self._read_to

    def _wait_for_store(self, error: StoreUnavailable) -> None:
        if not self._connection.has_open(self._store):
            return
        if not self._backoff.is_failing:
            log.warning("events.interrupted after=%s: %s", self._read_to or "the beginning", error)
        time.sleep(self._backoff.failed())

    def _beginning(self, after: str | None, seconds: float) -> str | None:
        events = self._store.events
        if after is None:
            return retry_while_unavailable(events.head, seconds)
        try:
            retry_while_unavailable(lambda: events.read(after or None, limit=1), seconds)
        except (ValueError, OverflowError) as error:
            raise UsageError(
                f"{after!r} is no offset of an event; pass the offset of one, or '' for the oldest."
            ) from error
        return after or None

    def _left_seconds(self, began_at: float) -> float:
        if self._timeout_seconds is None:
            return WAIT_SECONDS
        return began_at + self._timeout_seconds - time.monotonic()


class AsyncEventSubscription:
    """An asynchronous iterator over events. A wait that is cancelled loses none."""

    def __init__(
        self, connection: StoreConnection, wanted: EventChoice, after: str | None, timeout_seconds: float | None
    ) -> None:
        self._given = (connection, wanted, after, timeout_seconds)
        self._subscription: EventSubscription | None = None
        self._is_closed = False
        # Not asyncio's own threads: a few subscriptions would keep all of them waiting.
        self._thread = ThreadPoolExecutor(1, "stem-events")
        self._taking: asyncio.Future[Event | None] | None = None

    @property
    def offset(self) -> str | None:
        """As that of an EventSubscription."""
        return None if self._subscription is None else self._subscription.offset

    async def aclose(self) -> None:
        """End the iteration. The thread ends by itself, at the latest after two seconds."""
        self._is_closed = True
        if self._subscription is not None:
            self._subscription.close()
        self._thread.shutdown(wait=False)

    def __aiter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        """Begin now, so that nothing that happens from here on is missed."""
        await self._begun()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def __anext__(self) -> Event:
        import asyncio

        if self._is_closed:
            raise StopAsyncIteration
        subscription = await self._begun()
        if self._taking is None:
            found = subscription.take_found()
            if found is not None:
                return found
            self._taking = asyncio.get_running_loop().run_in_executor(self._thread, subscription.take)
        event = await asyncio.shield(self._taking)  # a caller that gives up leaves it to the next call
        self._taking = None
        if event is None:
            await self.aclose()
            raise StopAsyncIteration
        return event

    async def _begun(self) -> EventSubscription:
        import asyncio

        if self._subscription is None:
            loop = asyncio.get_running_loop()
            self._subscription = await loop.run_in_executor(self._thread, EventSubscription, *self._given)
        return self._subscription


def _several(what: str, values: Iterable[str]) -> list[str]:
    if isinstance(values, str):
        raise UsageError(f'{what} is {values!r}; give a list: {what}=["{values}"].')
    return list(values)


def _kind(text: str) -> EventKind:
    try:
        return EventKind(text)
    except ValueError:
        from stem.core.settings.setting import did_you_mean

        kinds = {kind.value: f"'{kind.value}'" for kind in EventKind}
        raise UsageError(f"There is no kind of event {text!r}{did_you_mean(text, kinds)}") from None
