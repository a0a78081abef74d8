"""Claimed tasks as they come from a script. One that somebody has written by hand must not keep the others from running."""

from collections.abc import Iterator, Sequence

import msgspec

from stem.backends.redis import shapes
from stem.backends.redis.space import Space
from stem.core.delivery import Delivery


def read_claimed(space: Space, claimed: Sequence[bytes], bodies: Iterator[bytes]) -> list[Delivery]:
    """`bodies` has those that lie beside their tasks."""
    return [each for packed in claimed if (each := _read(space, packed, bodies)) is not None]


def _read(space: Space, packed: bytes, bodies: Iterator[bytes]) -> Delivery | None:
    try:
        return shapes.delivery(packed, bodies)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # ValueError: broken UTF-8
        mended = shapes.mended(packed, bodies)
    if mended is None:
        return None
    delivery, stored = mended
    space.link.call("SET", space.key(f"t:{delivery.lease.id}"), stored, "XX")
    return delivery
