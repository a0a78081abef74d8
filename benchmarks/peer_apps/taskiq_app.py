"""Taskiq on a Redis stream, with results."""

import asyncio
import json
import os
import sys
import time

import sending
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

broker = RedisStreamBroker(os.environ["PEER_URL"]).with_result_backend(
    RedisAsyncResultBackend(os.environ["PEER_URL"], result_ex_time=600)
)


@broker.task(task_name="noop")
async def noop(n: int) -> int:
    sending.mark()
    return n


async def main() -> None:
    await broker.startup()
    began_at, cpu = time.perf_counter(), time.process_time()
    for number in range(int(sys.argv[1])):
        await noop.kiq(number)
    print(json.dumps([time.perf_counter() - began_at, time.process_time() - cpu]))
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
