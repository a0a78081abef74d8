"""arq, with results."""

import asyncio
import json
import os
import sys
import time
from typing import Any

import sending
from arq import create_pool
from arq.connections import RedisSettings

SETTINGS = RedisSettings.from_dsn(os.environ["PEER_URL"])


async def noop(_context: dict[str, Any], n: int) -> int:
    sending.mark()
    return n


class WorkerSettings:
    functions = (noop,)
    redis_settings = SETTINGS


async def main() -> None:
    pool = await create_pool(SETTINGS)
    began_at, cpu = time.perf_counter(), time.process_time()
    for number in range(int(sys.argv[1])):
        await pool.enqueue_job("noop", number)
    print(json.dumps([time.perf_counter() - began_at, time.process_time() - cpu]))


if __name__ == "__main__":
    asyncio.run(main())
