"""Celery, with acknowledgements after the run and results."""

import os

import sending
from celery import Celery

app = Celery("celery_app", broker=os.environ["PEER_URL"], backend=os.environ["PEER_URL"])
app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True, broker_connection_retry_on_startup=True)


@app.task(name="noop")
def noop(n: int) -> int:
    sending.mark()
    return n


if __name__ == "__main__":
    sending.send(lambda n: noop.apply_async((n,)))
