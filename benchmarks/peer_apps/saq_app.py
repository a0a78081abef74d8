"""SAQ on Redis, with results."""

import asyncio
import json
import os
import sys
import time
from typing import Any

import sending
from saq import Queue

queue = Queue.from_url(os.environ["PEER_URL"])


async def noop(_context: dict[str, Any], *, n: int) -> int:
    sending.mark()
    return n


settings = {"queue": queue, "functions": [noop]}


async def main() -> None:
    await queue.connect()
    began_at, cpu = time.perf_counter(), time.process_time()
    for number in range(int(sys.argv[1])):
        await queue.enqueue("noop", n=number)
    print(json.dumps([time.perf_counter() - began_at, time.process_time() - cpu]))
    await queue.disconnect()


if __name__ == "__main__":
    asyncio.run(main())
