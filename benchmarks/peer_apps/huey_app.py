"""Huey on Redis, with results."""

import os

import sending
from huey import RedisHuey

huey = RedisHuey("bench", url=os.environ["PEER_URL"])


@huey.task()
def noop(n: int) -> int:
    sending.mark()
    return n


if __name__ == "__main__":
    import huey_app  # tasks are named by their module, which is not __main__ in the consumer

    sending.send(huey_app.noop)
