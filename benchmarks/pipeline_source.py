"""How fast Spark reads a store: all tasks, with every column and with five; all events; all attempts. Two partitions, warm.

Planning and the start of Python are in the figures: they are what a user waits for.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec
import psutil

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.delivery import Ending
from stem.core.envelope import VERSION, Envelope, Push, encode_args
from stem.core.outcome import Dead, Done
from stem.core.record import TaskError, moment
from stem.core.settings.app import Retention, Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMESPACE = "bench"
CHUNK = 2000
ROUNDS = 3
FIVE = "id string, name string, state string, attempt int, finished_at timestamp"
BARS = {"tasks, 5 columns": 400_000, "tasks, all columns": 400_000, "events": 200_000}
_BOOM = TaskError("ValueError", "boom at 17", "Traceback", retryable=True)


def fill(url: str, tasks: int, *, ended: float = 0.6) -> None:
    """So many tasks of several names and queues, a part of them ended, one in fifty of these badly."""
    store = connect(url, Settings(namespace=NAMESPACE, retention=Retention(events_count=10**9)))
    for first in range(0, tasks, CHUNK):
        store.broker.push([Push(_envelope(n)) for n in range(first, min(first + CHUNK, tasks))])
    left = int(tasks * ended)
    while left > 0:
        left -= _end_some(store, min(left, CHUNK))
    store.upkeep.close()


@dataclass(frozen=True, slots=True)
class Rate:
    """`cpu_micros` is of a row, the JVM's and all Pythons' together: what two idle cores would take twice as fast."""

    per_second: float
    cpu_micros: float


def measure(spark: "SparkSession", url: str, *, partitions: int = 2) -> dict[str, Rate]:
    """By what is read; the best of some rounds."""

    def load(table: str, schema: str | None = None) -> "DataFrame":
        options = {"url": url, "namespace": NAMESPACE, "table": table, "partitions": str(partitions)}
        reader = spark.read.format("stem").options(**options)
        return (reader.schema(schema) if schema else reader).load()

    return {
        "tasks, 5 columns": _best(lambda: _count(load("tasks", FIVE))),
        "tasks, all columns": _best(lambda: _count(load("tasks"))),
        "events": _best(lambda: _count(load("events"))),
        "attempts": _best(lambda: _count(load("attempts"))),
    }


def _count(frame: "DataFrame") -> int:
    from pyspark.sql import functions as F

    row = frame.agg(F.count("*"), F.sum("attempt")).first()
    assert row is not None
    return int(row[0])


def _best(read: Callable[[], int]) -> Rate:
    read()
    rates: list[Rate] = []
    for _ in range(ROUNDS):
        began, busy = time.perf_counter(), _cpu_seconds()
        count = read()
        rates.append(Rate(count / (time.perf_counter() - began), (_cpu_seconds() - busy) / count * 1e6))
    return Rate(max(rate.per_second for rate in rates), min(rate.cpu_micros for rate in rates))


def _cpu_seconds() -> float:
    """Of this process and all below it; Spark keeps its Python workers, so none of their time is lost."""
    here = psutil.Process()
    times = []
    for process in [here, *here.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            times.append(process.cpu_times())
    return sum(each.user + each.system for each in times)


def _envelope(n: int) -> Envelope:
    return Envelope(
        id=str(uuid4()),
        name=f"shop.task{n % 7}",
        args=encode_args({"order": n, "note": "a little text"}, limit_bytes=1000),
        headers={},
        enqueued_at=moment(time.time()),
        not_before=None,
        priority=5,
        attempt=0,
        max_retries=3,
        visibility_timeout=None,
        queue=f"q{n % 3}",
        meta={"tenant": f"t{n % 20}"} if n % 4 == 0 else {},
        version=VERSION,
    )


def _end_some(store: Store, count: int) -> int:
    claimed = store.broker.claim(["q0", "q1", "q2"], limit=count, lease_seconds=600)
    payload = msgspec.Raw(b'{"total":12.5,"ok":true}')
    endings = [
        Ending(each.lease, Dead("not-retryable", _BOOM) if n % 50 == 0 else Done(payload), 0.1)
        for n, each in enumerate(claimed)
    ]
    store.broker.settle(endings, worker=f"host-{count % 5}:4711")
    return len(claimed)


def main() -> int:
    from stem.pipeline.spark.session import session

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--url", help="a store that has been filled; none: an SQLite file is filled first")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stem-bench-") as folder:
        url = chosen.url or f"sqlite:///{Path(folder)}/stem.db?synchronous=normal"
        if chosen.url is None:
            fill(url, chosen.tasks)
        spark = session("bench", master="local[2]")
        found = measure(spark, url)
        for what, rate in found.items():
            bar = BARS.get(what)
            verdict = "" if bar is None else f"   bar {bar:>9,}   {'held' if rate.per_second >= bar else 'MISSED'}"
            print(f"{what:<20} {rate.per_second:>12,.0f} rows/s  {rate.cpu_micros:>6.2f} µs CPU a row{verdict}")
        print(f"load {psutil.getloadavg()[0]:.1f}")
        spark.stop()
    return int(any(found[what].per_second < bar for what, bar in BARS.items()))


if __name__ == "__main__":
    sys.exit(main())
