"""Keep dead letters on Redis, read in bounded stretches."""

from collections.abc import Iterator

import msgspec

from stem.backends.redis.codec import stored_task, values
from stem.backends.redis.namespace import RedisNamespace, microseconds
from stem.contracts.deadletters import DeadLetters
from stem.core.delivery import DeadFilter, DeadLetter
from stem.core.record import Page, moment

STRETCH = 1000  # letters looked at in one script call, at most


class LetterQuery(msgspec.Struct, omit_defaults=True):
    """A filter and where to go on, as the scripts read it."""

    limit: int
    stretch: int = 0
    before: int | None = None
    ids: list[str] | None = None
    queue: str | None = None
    name: str | None = None
    reason: str | None = None
    since: int | None = None
    till: int | None = None
    delay: int | None = None
    at: str | None = None
    dry_run: bool = False


class RedisDeadLetters(DeadLetters):
    def __init__(self, namespace: RedisNamespace) -> None:
        self._namespace = namespace

    def get(self, task_id: str) -> DeadLetter | None:
        page = self.page(DeadFilter(ids=(task_id,)), limit=1)
        return page.items[0] if page.items else None

    def page(self, where: DeadFilter, *, limit: int, cursor: str | None = None) -> Page[DeadLetter]:
        if limit <= 0:
            return Page([], None)
        query = _query(where, limit + 1)
        query.before = None if cursor is None else int(cursor)
        found: list[tuple[int, DeadLetter]] = []
        while True:
            last, *parts = self._namespace.run("letters", query)
            found += map(stored_task.numbered_letter, parts[::2], parts[1::2])
            if not last or len(found) > limit:
                break
            query.before, query.limit, query.stretch = int(last), limit + 1 - len(found), STRETCH
        more = len(found) > limit
        return Page([each for _, each in found[:limit]], str(found[limit - 1][0]) if more else None)

    def replay(
        self, where: DeadFilter, *, limit: int = 1000, delay_seconds: float = 0.0, dry_run: bool = False
    ) -> list[str]:
        query = _query(where, limit)
        query.delay, query.dry_run = microseconds(delay_seconds), dry_run
        query.at = values.json(moment(self._namespace.now()))
        return [id for ids in self._steps("replay", query) for id in ids]

    def purge(self, where: DeadFilter, *, limit: int = 1000) -> int:
        return sum(len(ids) for ids in self._steps("drop", _query(where, limit)))

    def _steps(self, script: str, query: LetterQuery) -> Iterator[list[str]]:
        left = query.limit
        while left > 0:
            query.limit = min(left, STRETCH)
            last, ids = _step(self._namespace.run(script, query))
            yield ids
            left -= len(ids)
            if last == "":
                return
            query.before, query.stretch = int(last), STRETCH


def _query(where: DeadFilter, limit: int) -> LetterQuery:
    return LetterQuery(
        limit=limit,
        stretch=min(STRETCH, limit),
        ids=None if where.ids is None else list(where.ids),
        queue=where.queue,
        name=where.name,
        reason=where.reason,
        since=None if where.since is None else values.at(where.since),
        till=None if where.until is None else values.at(where.until),
    )


_step = msgspec.msgpack.Decoder(tuple[int | str, list[str]]).decode
