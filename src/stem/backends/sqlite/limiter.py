"""Keep rate limits and places in an SQLite file."""

import random
import sqlite3
from collections.abc import Sequence

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.contracts.limiter import Bucket, Limiter, Place
from stem.core.decisions import ratelimit
from stem.core.decisions.ratelimit import Level


class SqliteLimiter(Limiter):
    def __init__(self, namespace: SqliteNamespace) -> None:
        self._namespace = namespace

    def take(self, buckets: Sequence[Bucket]) -> list[float]:
        if not buckets:
            return []
        with self._namespace.database.writing() as connection:
            levels = self._levels(connection, buckets)
            before, now = dict(levels), self._namespace.now()
            answers = [_take(levels, bucket, now) for bucket in buckets]
            self._put(connection, buckets, before, levels)
        return answers

    def hold(self, places: Sequence[Place]) -> list[bool]:
        if not places:
            return []
        namespace = self._namespace
        with namespace.database.writing() as connection:
            now = namespace.now()
            rows = [(namespace.ns, each.key, each.holder, now + each.ttl_seconds, now, each.limit) for each in places]
            return [connection.execute(SQL["place_hold"], row).rowcount == 1 for row in rows]

    def free(self, places: Sequence[Place]) -> None:
        if not places:
            return
        with self._namespace.database.writing() as connection:
            rows = [(self._namespace.ns, place.key, place.holder) for place in places]
            connection.executemany(SQL["place_free"], rows)

    def _levels(self, connection: sqlite3.Connection, buckets: Sequence[Bucket]) -> dict[str, Level]:
        levels = {}
        for key in dict.fromkeys(bucket.key for bucket in buckets):
            row = connection.execute(SQL["bucket_get"], (self._namespace.ns, key)).fetchone()
            if row is not None:
                levels[key] = Level(*row)
        return levels

    def _put(
        self,
        connection: sqlite3.Connection,
        buckets: Sequence[Bucket],
        before: dict[str, Level],
        after: dict[str, Level],
    ) -> None:
        """Only what has changed: a backlog that is sent away as a whole writes nothing."""
        rows = [
            (self._namespace.ns, key, *level, ratelimit.full_at(level, burst))
            for key, burst in {bucket.key: bucket.burst for bucket in buckets}.items()
            if (level := after[key]) != before.get(key)
        ]
        connection.executemany(SQL["bucket_put"], rows)


def _take(levels: dict[str, Level], bucket: Bucket, now: float) -> float:
    answer, level = ratelimit.take(
        levels.get(bucket.key),
        pace_seconds=bucket.pace_seconds,
        burst=bucket.burst,
        now=now,
        random_fraction=random.random(),  # noqa: S311 - nothing secret
    )
    levels[bucket.key] = level
    return answer
