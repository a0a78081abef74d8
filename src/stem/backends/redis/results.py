"""Keep task records on Redis."""

import time
from collections.abc import Sequence

import msgspec

from stem.backends.redis.codec import stored_task, values
from stem.backends.redis.namespace import RedisNamespace, pack
from stem.contracts.results import Results
from stem.core.errors import StoreUnavailable
from stem.core.record import Page, TaskFilter, TaskRecord

STRETCH = 1000  # records per script call, at most
AGAIN_SECONDS = 0.2  # between attempts to reach a server that is gone


class RecordQuery(msgspec.Struct, omit_defaults=True):
    """A filter and the position to continue from, as records.lua reads it."""

    limit: int
    stretch: int = 0
    before: int | None = None
    state: str | None = None
    queue: str | None = None
    name: str | None = None
    since: int | None = None
    till: int | None = None
    meta: dict[str, str] | None = None


class RedisResults(Results):
    def __init__(self, namespace: RedisNamespace) -> None:
        self._namespace = namespace

    def get(self, task_ids: Sequence[str], *, past_retention: bool = False) -> dict[str, TaskRecord]:
        return self._get(list(task_ids), None, past_retention=past_retention)

    def wait(self, task_ids: Sequence[str], *, timeout_seconds: float) -> dict[str, TaskRecord]:
        """Survive a server that goes away and comes back within the time."""
        end = time.monotonic() + timeout_seconds
        while True:
            try:
                return self._wait(list(task_ids), end - time.monotonic())
            except StoreUnavailable:
                left = end - time.monotonic()
                if left <= 0 or self._namespace.client.is_closed:
                    raise
                time.sleep(min(left, AGAIN_SECONDS))

    def page(self, where: TaskFilter, *, limit: int, cursor: str | None = None) -> Page[TaskRecord]:
        if limit <= 0:
            return Page([], None)
        query = _query(where, limit + 1)
        query.before = None if cursor is None else int(cursor)
        found: list[tuple[int, TaskRecord]] = []
        while True:
            last, *tasks = self._namespace.run("records", query)
            found += [(task.seq, stored_task.record(task)) for task in map(stored_task.decode_task, tasks)]
            if not last or len(found) > limit:
                break
            query.before, query.limit, query.stretch = int(last), limit + 1 - len(found), STRETCH
        more = len(found) > limit
        return Page([each for _, each in found[:limit]], str(found[limit - 1][0]) if more else None)

    def save(self, records: Sequence[TaskRecord]) -> None:
        if records:
            self._namespace.run(
                "save", [record.id for record in records], pack([stored_task.stored(each) for each in records])
            )

    def _get(self, task_ids: list[str], within: float | None, *, past_retention: bool = False) -> dict[str, TaskRecord]:
        found: dict[str, TaskRecord] = {}
        for first in range(0, len(task_ids), STRETCH):
            ids = task_ids[first : first + STRETCH]
            packed = self._namespace.run("get", (ids, past_retention), within=within)
            found |= {
                id: stored_task.record(stored_task.decode_task(each))
                for id, each in zip(ids, packed, strict=True)
                if each
            }
        return found

    def _wait(self, task_ids: list[str], timeout_seconds: float) -> dict[str, TaskRecord]:
        wanted = frozenset(task_ids)

        def look(left: float) -> dict[str, TaskRecord]:
            return {id: each for id, each in self._get(task_ids, left).items() if each.is_terminal}

        def is_news(message: bytes) -> bool:
            return not wanted.isdisjoint(_ids(message))

        return self._namespace.wait(["ended"], look, timeout_seconds, is_news=is_news) or {}


def _query(where: TaskFilter, limit: int) -> RecordQuery:
    return RecordQuery(
        limit=limit,
        stretch=min(STRETCH, limit),
        state=where.state,
        queue=where.queue,
        name=where.name,
        since=None if where.since is None else values.at(where.since),
        till=None if where.until is None else values.at(where.until),
        meta=None if where.meta is None else {key: values.json(value) for key, value in where.meta.items()},
    )


_ids = msgspec.msgpack.Decoder(list[str]).decode
