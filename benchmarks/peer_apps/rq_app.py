"""RQ, with results."""

import os

import sending
from redis import Redis
from rq import Queue
from rq_tasks import noop

if __name__ == "__main__":
    queue = Queue(connection=Redis.from_url(os.environ["PEER_URL"]))
    sending.send(lambda n: queue.enqueue(noop, n))
