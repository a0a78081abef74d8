"""What tests ask other processes to do with a store's limiter."""

import os
import time
from threading import Barrier
from typing import NamedTuple

from stem.contracts.limiter import Bucket, Place
from support.stores.process_targets import Open


class Hammering(NamedTuple):
    """What one taker got, and the store's time around its first and its last take."""

    grants: int
    before_first: float
    after_first: float
    before_last: float
    after_last: float


def hammer(open_store: Open, bucket: Bucket, seconds: float, gate: Barrier) -> Hammering:
    """Take and take again, whatever the answer, at the same time as others; at the end what was saved up is taken, too."""
    store = open_store()

    def take() -> int:
        return store.limiter.take([bucket]).count(0.0)

    gate.wait(60)
    end = time.monotonic() + seconds
    before_first = store.upkeep.now()
    grants = granted = take()
    after_first = before_last = store.upkeep.now()
    while time.monotonic() < end or (granted and time.monotonic() < end + 20):
        before_last = store.upkeep.now()
        granted = take()
        grants += granted
    after_last = store.upkeep.now()
    store.upkeep.close()
    return Hammering(grants, before_first, after_first, before_last, after_last)


def hold_and_free(open_store: Open, limit: int, rounds: int, gate: Barrier) -> list[tuple[float, float]]:
    """Try for a place as a new holder each time; returns the spans, in the store's time, in which one was surely held."""
    store = open_store()
    spans = []
    gate.wait(60)
    for number in range(rounds):
        place = Place("k", holder=f"{os.getpid()}-{number}", limit=limit, ttl_seconds=60)
        if store.limiter.hold([place]) == [True]:
            spans.append((store.upkeep.now(), store.upkeep.now()))
            store.limiter.free([place])
    store.upkeep.close()
    return spans


def take_in_any_order(open_store: Open, buckets: list[Bucket], rounds: int, gate: Barrier) -> int:
    """Several keys a call; returns how many calls came through."""
    store = open_store()
    gate.wait(60)
    answers = [store.limiter.take(buckets) for _ in range(rounds)]
    store.upkeep.close()
    return len(answers)
