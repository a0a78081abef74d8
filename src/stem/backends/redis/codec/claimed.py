"""Read claimed tasks. A task that was written by hand and cannot be read does not keep the others from running."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

import msgspec

from stem.backends.redis.codec import stored_task
from stem.backends.redis.namespace import RedisNamespace
from stem.core.delivery import Delivery


def read_claimed(
    namespace: RedisNamespace, claimed: Sequence[bytes], bodies: Iterator[bytes], ranks: bytes | None = None
) -> list[Delivery]:
    """`bodies` are the envelopes stored under keys of their own; `ranks` where the tasks stood in their queues, if in any."""
    places: Iterable[int | None] = repeat(None) if ranks is None else ranks
    found = (_read(namespace, packed, bodies, rank) for packed, rank in zip(claimed, places, strict=False))
    return [each for each in found if each is not None]


def _read(namespace: RedisNamespace, packed: bytes, bodies: Iterator[bytes], rank: int | None) -> Delivery | None:
    try:
        return stored_task.delivery(packed, bodies, rank)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # ValueError: broken UTF-8
        repaired = stored_task.repaired(packed, bodies)
    if repaired is None:
        return None
    delivery, stored = repaired
    namespace.client.call("SET", namespace.key(f"t:{delivery.lease.id}"), stored, "XX")
    return delivery
