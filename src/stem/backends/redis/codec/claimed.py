"""Read claimed tasks. A task that was written by hand and cannot be read does not keep the others from running."""

from collections.abc import Iterator, Sequence

import msgspec

from stem.backends.redis.codec import stored_task
from stem.backends.redis.namespace import RedisNamespace
from stem.core.delivery import Delivery


def read_claimed(namespace: RedisNamespace, claimed: Sequence[bytes], bodies: Iterator[bytes]) -> list[Delivery]:
    """`bodies` are the envelopes stored under keys of their own."""
    return [each for packed in claimed if (each := _read(namespace, packed, bodies)) is not None]


def _read(namespace: RedisNamespace, packed: bytes, bodies: Iterator[bytes]) -> Delivery | None:
    try:
        return stored_task.delivery(packed, bodies)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # ValueError: broken UTF-8
        repaired = stored_task.repaired(packed, bodies)
    if repaired is None:
        return None
    delivery, stored = repaired
    namespace.client.call("SET", namespace.key(f"t:{delivery.lease.id}"), stored, "XX")
    return delivery
