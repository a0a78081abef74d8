"""A producer and consumer that kills itself with SIGKILL at a named point between, or within, its store operations.

python actor.py URL NAMESPACE after:STEP
python actor.py URL NAMESPACE during:STEP SECONDS
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, Delivery, Report
from stem.core.settings.app import Settings
from support.builders import a_push, cancelled, dead, done, pushes, requeue, retry

LEASE = 0.3
WORKER = "actor"
QUEUES = ["default", "second", "junk"]

Hands = dict[str, Delivery]
Step = Callable[[Store, Hands], object]


def claim(store: Store, hands: Hands) -> None:
    for delivery in store.broker.claim(["default"], limit=8, lease_seconds=LEASE):
        hands[delivery.lease.id] = delivery


STEPS: dict[str, Step] = {
    "connect": lambda store, hands: store,
    "push-one": lambda store, hands: store.broker.push([a_push("one", unique="key-one", max_retries=9)]),
    "push-batch": lambda store, hands: store.broker.push(
        [a_push(f"b{n}", priority=9 - n % 10, unique=f"key-{n}") for n in range(40)]
    ),
    "push-delayed": lambda store, hands: store.broker.push(pushes("later", delay=0.2)),
    "push-junk": lambda store, hands: store.broker.push(pushes("j1", "j2", "j3", queue="junk", unique=None)),
    "claim": claim,
    "start": lambda store, hands: store.broker.start([held.lease for held in hands.values()], worker=WORKER),
    "report": lambda store, hands: store.broker.report([Report(hands["b0"].lease, {"percent": 50})], worker=WORKER),
    "renew": lambda store, hands: store.broker.renew([held.lease for held in hands.values()], lease_seconds=LEASE),
    "settle-done": lambda store, hands: store.broker.settle([done(hands["b0"], "b0")], worker=WORKER),
    "settle-retry": lambda store, hands: store.broker.settle([retry(hands["b10"], 0.1)], worker=WORKER),
    "settle-dead": lambda store, hands: store.broker.settle([dead(hands["b20"], note={"n": 1})], worker=WORKER),
    "settle-requeue": lambda store, hands: store.broker.settle([requeue(hands["b30"], died=True)], worker=WORKER),
    "settle-cancelled": lambda store, hands: store.broker.settle([cancelled(hands["b1"])], worker=WORKER),
    "settle-follow-up": lambda store, hands: store.broker.settle(
        [done(hands["b11"], "b11", meta={"host": "h"}, then=[a_push("f1", unique="key-11"), a_push("f2", queue="second")])],
        worker=WORKER,
    ),
    "settle-mixed": lambda store, hands: store.broker.settle(
        [done(hands["b0"], "late"), dead(hands["b21"]), retry(hands["b31"], then=pushes("f3", queue="second"))],
        worker=WORKER,
    ),
    "push-graph": lambda store, hands: store.broker.push(
        [a_push("root", queue="second"), *(a_push(f"g{n}", queue="second", after=["root"]) for n in range(40))]
    ),
    "cancel-graph": lambda store, hands: store.broker.cancel(["root"]),
    "replay": lambda store, hands: store.deadletters.replay(DeadFilter()),
    "purge": lambda store, hands: store.broker.purge("junk"),
    "prune": lambda store, hands: store.upkeep.prune(),
}  # fmt: skip


def perform(store: Store, until: str) -> Hands:
    """All steps up to and with the named one."""
    hands: Hands = {}
    for name, step in STEPS.items():
        step(store, hands)
        if name == until:
            break
    return hands


def main() -> None:
    url, namespace, point, *seconds = sys.argv[1:]
    store = connect(url, Settings(namespace=namespace))
    when, _, last = point.partition(":")
    if when == "during":
        names = list(STEPS)
        hands = perform(store, names[names.index(last) - 1])
        threading.Thread(target=die_after, args=(float(seconds[0]),), daemon=True).start()
        STEPS[last](store, hands)
    else:
        perform(store, last)
    os.kill(os.getpid(), signal.SIGKILL)


def die_after(seconds: float) -> None:
    # The one place where a nap is the point: death comes at a moment of its own.
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
