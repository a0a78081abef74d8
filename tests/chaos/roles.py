"""The people of the campaign: producers that note what was acknowledged, consumers that do as they please."""

import os
import random
from collections.abc import Callable
from pathlib import Path

from stem.contracts.store import Store
from stem.core.delivery import Delivery, Ending, Report
from support.builders import a_push, done, requeue, retry
from support.stores.draining import NEVER

QUEUES = ["default", "second"]
LEASE = 0.3

Open = Callable[[], Store]


def produce(open_store: Open, name: str, seed: int, notes: Path) -> None:
    """Push batches for ever. An id is noted only when its push has returned."""
    dice = random.Random(seed)
    store = open_store()
    pad = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    n = 0
    while True:
        batch = [
            a_push(
                f"{name}-{n + k}",
                queue=dice.choice(QUEUES),
                priority=dice.randrange(10),
                delay=dice.choice([None, None, 0.02]),
            )
            for k in range(dice.randint(1, 6))
        ]
        n += len(batch)
        receipts = store.broker.push(batch)
        os.write(pad, "".join(f"{receipt.id}\n" for receipt in receipts).encode())
        store.broker.wait(["nothing"], timeout_seconds=dice.choice([0.0, 0.01]))  # leave the consumers some room


def consume(open_store: Open, name: str, seed: int, notes: Path) -> None:
    """Claim, start, report, renew and settle for ever, in every way there is."""
    dice = random.Random(seed)
    store = open_store()
    while True:
        store.broker.reclaim(max_deaths=NEVER)
        deliveries = store.broker.claim(QUEUES, limit=dice.randint(1, 8), lease_seconds=LEASE)
        if not deliveries:
            store.broker.wait(QUEUES, timeout_seconds=0.1)
            continue
        leases = [delivery.lease for delivery in deliveries]
        if dice.random() < 0.7:
            store.broker.start(leases, worker=name)
        if dice.random() < 0.3:
            store.broker.report([Report(lease, {"by": name}) for lease in leases], worker=name)
        if dice.random() < 0.3:
            store.broker.renew(leases, lease_seconds=LEASE)
        store.broker.settle([decide(delivery, dice) for delivery in deliveries], worker=name)


def decide(delivery: Delivery, dice: random.Random) -> Ending:
    id, roll = delivery.lease.id, dice.random()
    if roll < 0.15 and delivery.attempt < 2:
        return retry(delivery, dice.choice([0.0, 0.02]))
    if roll < 0.25:
        return requeue(delivery)
    if roll < 0.4 and not id.endswith("+"):
        return done(delivery, id, then=[a_push(f"{id}+", queue=dice.choice(QUEUES))])
    return done(delivery, id)
