"""Dramatiq, with results."""

import os

import dramatiq
import sending
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

broker = RedisBroker(url=os.environ["PEER_URL"])
broker.add_middleware(Results(backend=RedisBackend(url=os.environ["PEER_URL"]), store_results=True))
dramatiq.set_broker(broker)


@dramatiq.actor
def noop(n: int) -> int:
    sending.mark()
    return n


if __name__ == "__main__":
    sending.send(noop.send)
