"""The pushes of one canvas on their way into the store: one push, or staged in chunks if there are very many."""

from collections.abc import Callable, Sequence
from uuid import uuid4

from stem.client.send.announcing import announced
from stem.client.store_connection import StoreConnection
from stem.contracts.staging import Part, calls_of
from stem.core.envelope import Push, Receipt
from stem.core.errors import StoreRefused

STAGED_FROM = (
    10_000  # tasks that are pushed in one call; what is beyond is staged, so that memory holds a chunk of them
)
CHUNK = 5_000


class PushBatch:
    """Collects pushes and stores all of them or none."""

    def __init__(self, store_connection: StoreConnection, *, can_stage: bool) -> None:
        self._store_connection = store_connection
        self._can_stage = can_stage
        self._job = f"canvas-{uuid4().hex}"
        self._parts: list[Part] = []
        self.plain: list[Push] = []  # those that wait for nothing
        self._others: list[Push] = []
        self._order: list[Push] = []

    def add(self, push: Push) -> None:
        self._order.append(push)
        if push.envelope.after or push.envelope.is_join:
            self._others.append(push)
            return
        self.plain.append(push)
        if self._can_stage and len(self.plain) >= (CHUNK if self._parts else STAGED_FROM + 1):
            self._stage()

    @property
    def pushes(self) -> list[Push]:
        """All of them, in the order of their prerequisites."""
        return self._order

    def store(self, connection: object | None, push: Callable[[Sequence[Push]], list[Receipt]] | None = None) -> None:
        """Store what was collected. Raises StoreUnavailable, StoreRefused."""
        if self._parts:
            if self.plain:
                self._stage()
            self._store_connection.promote(self._job, self._parts, self._others)
        elif push is not None:
            announced(self._order, push)
        else:
            self._store_connection.push(self._order, connection)

    async def astore(self, connection: object | None) -> None:
        import asyncio

        if self._parts:
            await asyncio.to_thread(self.store, None)
        else:
            await self._store_connection.apush(self._order, connection)

    def discard(self) -> None:
        """Delete what was staged, because the canvas cannot be stored."""
        if self._parts:
            self._store_connection.store.staging.discard(self._job)

    def _stage(self) -> None:
        part = Part(f"part-{len(self._parts)}-{uuid4().hex[:8]}", len(self.plain))
        try:
            self._store_connection.store.staging.stage(self._job, part.name, calls_of(self.plain))
        except StoreRefused:
            if self._parts:
                raise
            self._can_stage = False  # results live apart: one push
            return
        self._parts.append(part)
        self.plain, self._order = [], list(self._others)
