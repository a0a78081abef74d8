"""Keep rate limits and places in Postgres. Keys and holders are JSON strings, so they may contain any character."""

from collections.abc import Sequence

from stem.backends.postgres.codec.text_columns import column, json_text, numbers
from stem.backends.postgres.namespace import PostgresNamespace
from stem.contracts.limiter import Bucket, Limiter, Place


class PostgresLimiter(Limiter):
    def __init__(self, namespace: PostgresNamespace) -> None:
        self._namespace = namespace

    def take(self, buckets: Sequence[Bucket]) -> list[float]:
        if not buckets:
            return []
        answers: list[float] = self._namespace.call(
            "take_tokens",
            column([json_text(bucket.key) for bucket in buckets]),
            numbers(bucket.pace_seconds for bucket in buckets),
            numbers(bucket.burst for bucket in buckets),
        )[0][0]
        return answers

    def hold(self, places: Sequence[Place]) -> list[bool]:
        if not places:
            return []
        answers: list[bool] = self._namespace.call(
            "hold_places",
            *_held(places),
            numbers(place.limit for place in places),
            numbers(place.ttl_seconds for place in places),
        )[0][0]
        return answers

    def free(self, places: Sequence[Place]) -> None:
        if places:
            self._namespace.call("free_places", *_held(places))


def _held(places: Sequence[Place]) -> tuple[str, str]:
    return column([json_text(place.key) for place in places]), column([json_text(place.holder) for place in places])
