"""How fast Spark turns a DataFrame into visible tasks and events, on each store. Prints rows a second beside CPU and bars."""

import argparse
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
from pyspark.sql import SparkSession
from redis import Redis
from rich.console import Console
from rich.table import Table

from pipeline_session import started

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from stem.backends import connect
from stem.core.settings.app import Retention, Settings
from support.servers import PostgresServer, RedisServer
from support.until import until

ROWS = 200_000
ROUNDS = 5
PARTITIONS = 2
BARS = {"sqlite": 100_000, "postgres": 40_000, "redis": 60_000}
KEPT = Retention(events_count=10_000_000)
SERVERS: list[psutil.Process] = []  # that are no children of this process


@contextmanager
def stores(names: list[str]) -> Iterator[dict[str, Callable[[], str]]]:
    """By name, how to get the URL of an empty store. What was written before is gone then, and on its way to the disk no more:
    servers that rewrite and checkpoint it meanwhile would be measured along."""
    folder = Path(tempfile.mkdtemp(prefix="stem-sink-"))
    redis = RedisServer() if "redis" in names else None
    postgres = PostgresServer() if "postgres" in names else None
    if postgres is not None:
        SERVERS.append(psutil.Process(postgres.pid))

    def in_sqlite() -> str:
        for file in folder.iterdir():
            file.unlink() if file.is_file() else shutil.rmtree(file)
        os.sync()
        return f"sqlite:///{folder}/{uuid.uuid4().hex}.db"

    def in_redis() -> str:
        assert redis is not None
        with Redis.from_url(redis.url) as client:
            client.flushall()
            until(lambda: not client.info("persistence")["aof_rewrite_in_progress"], seconds=60)
        os.sync()
        return redis.url

    def in_postgres() -> str:
        assert postgres is not None
        with psycopg.connect(postgres.url, autocommit=True) as conn:
            conn.execute("DROP SCHEMA IF EXISTS stem CASCADE")
            conn.execute("CHECKPOINT")
        os.sync()
        return postgres.url

    urls: dict[str, Callable[[], str]] = {"sqlite": in_sqlite, "redis": in_redis, "postgres": in_postgres}
    try:
        yield {name: urls[name] for name in names}
    finally:
        SERVERS.clear()
        for server in (redis, postgres):
            if server is not None:
                server.close()
        shutil.rmtree(folder, ignore_errors=True)


def measure(spark: SparkSession, url: str, rows: int) -> tuple[float, float]:
    """Seconds, and seconds of CPU of all processes below this one and of the server."""
    namespace = f"b{uuid.uuid4().hex[:12]}"
    store = connect(url, Settings(namespace=namespace, retention=KEPT))
    frame = spark.range(0, rows, 1, PARTITIONS).selectExpr(
        "concat('user', id, '@example.com') AS to", "id AS n", "id / 7 AS score"
    )
    cpu, began = _cpu(), time.perf_counter()
    (
        frame.write.format("stem").option("url", url).option("namespace", namespace)
        .option("task", "mail.send").option("queue", "bench").mode("append").save()
    )  # fmt: skip
    seconds, spent = time.perf_counter() - began, _cpu() - cpu
    assert store.broker.depth(["bench"])["bench"].ready == rows
    store.upkeep.close()
    return seconds, spent


def _cpu() -> float:
    """With what ended children have left to their parents."""
    me = psutil.Process()
    every = [each for root in (me, *SERVERS) for each in (root, *root.children(recursive=True))]
    times = [process.cpu_times() for process in {each.pid: each for each in every}.values() if process.is_running()]
    return sum(each.user + each.system + each.children_user + each.children_system for each in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--executors", type=int, default=0)
    parser.add_argument("stores", nargs="*", default=list(BARS))
    asked = parser.parse_args()
    table = Table(
        "store",
        "rows/s",
        "bar",
        "wall µs",
        "CPU µs",
        title=f"{asked.rows:,} rows, best of {asked.rounds} warm",
    )
    spark = started(asked.executors)
    with stores(asked.stores) as urls:
        for url in urls.values():  # the first writes find the data source, start Python, and warm the JVM
            measure(spark, url(), asked.rows)
        for name, url in urls.items():
            seconds, cpu = min(measure(spark, url(), asked.rows) for _ in range(asked.rounds))
            rate = asked.rows / seconds
            colour = "green" if rate >= BARS[name] else "red"
            per_row = 1e6 / asked.rows
            print(f"{name}: {rate:,.0f} rows/s, {cpu * per_row:.1f} µs CPU a row", flush=True)
            table.add_row(
                name, f"[{colour}]{rate:,.0f}[/]", f"{BARS[name]:,}", f"{seconds * per_row:.1f}", f"{cpu * per_row:.1f}"
            )
    spark.stop()
    Console().print(table)


if __name__ == "__main__":
    main()
