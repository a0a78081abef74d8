"""Procrastinate on Postgres; it keeps the job's state and no result."""

import asyncio
import json
import os
import sys
import time

import procrastinate
import sending

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["PEER_URL"]))


@app.task(name="noop")
async def noop(n: int) -> None:  # noqa: ARG001
    sending.mark()


async def main() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        began_at, cpu = time.perf_counter(), time.process_time()
        for number in range(int(sys.argv[1])):
            await noop.defer_async(n=number)
        print(json.dumps([time.perf_counter() - began_at, time.process_time() - cpu]))


if __name__ == "__main__":
    asyncio.run(main())
