"""How fast events become a lake, how fresh it is, how its cost grows, and how long a report over a million attempts takes.

Embedded Spark on two cores (or --executors so many), everything warm but where it says so. Run it with ingest, freshness,
report, curve, or none for all; --sizes gives the curve's, in events.
"""

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import psutil

from pipeline_session import started
from stem.backends import connect
from stem.backends.sqlite.log import event_rows
from stem.core.settings.app import Retention, Settings
from stem.pipeline.lake import lake as lakes
from stem.pipeline.lake.stream_to_lake import Batch, StreamToLake
from stem.pipeline.report.report import period, report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BARS = {
    "ingest, events/s": 50_000,
    "freshness p95, s": 3.0,
    "report over 1 M attempts, s": 5.0,
    "driver RSS, MB": 1024,
    "curve, furthest from a straight line, %": 15,
}
SIZES = (100_000, 200_000, 500_000, 1_000_000, 3_000_000, 5_000_000)
Start = Callable[[], "SparkSession"]
_KEEP = Retention(events_count=10**9)


def fill(url: str, tasks: int, *, since_seconds: float = 6 * 3600) -> None:
    """So many tasks, three events each, spread over some hours, written as the broker writes its log."""
    store = connect(url, Settings(retention=_KEEP))
    space = store.events._namespace  # type: ignore[attr-defined]
    start, step = time.time() - since_seconds, since_seconds / tasks
    for first in range(0, tasks, 5000):
        lines: list[event_rows.Line] = []
        for n in range(first, min(first + 5000, tasks)):
            at, run = start + n * step, 0.01 + n * 7919 % 1000 / 500
            name, worker, id = f"shop.task{n % 7}", f"host-{n % 4}:4711", f"0197f3a2-7c1e-7d44-9b0a-{n:012d}"
            begun = at + 0.001 * (n * 104729 % 5000)
            is_bad = n % 50 == 0
            error = {"error": {"type": "ValueError", "message": f"no user {n}", "retryable": True}} if is_bad else None
            lines += [
                ("enqueued", at, id, name, "default", 0, None, at, None, None),
                ("started", begun, id, name, "default", 0, worker, at, begun, None),
                ("retried" if is_bad else "succeeded", begun + run, id, name, "default", 0, worker, at, begun, error),
            ]
        with space.database.writing() as connection:
            event_rows.append(connection, space, lines)
    store.upkeep.close()


def ingest(start: Start, tasks: int = 400_000, *, events_per_batch: int = 100_000) -> dict[str, float]:
    """The first two batches warm Spark up."""
    with tempfile.TemporaryDirectory(prefix="stem-bench-") as folder:
        url = f"sqlite:///{folder}/stem.db"
        fill(url, tasks)
        batches: list[Batch] = []
        marks: list[tuple[float, float]] = []

        def told(batch: Batch) -> None:
            batches.append(batch)
            marks.append((time.perf_counter(), _cpu_seconds()))

        flow = StreamToLake(
            Settings(broker_url=url), f"{folder}/lake", on_batch=told, events_per_batch=events_per_batch
        )
        flow.run(start)
        events = sum(batch.events for batch in batches[2:])
        (wall, cpu), (wall_end, cpu_end) = marks[1], marks[-1]
        return {
            "ingest, events/s": events / (wall_end - wall),
            "ingest, CPU s a million": (cpu_end - cpu) / events * 1e6,
            "ingest, first batch s": batches[0].seconds,
            "driver RSS, MB": _driver_megabytes(),
        }


def freshness(start: Start, seconds: float = 30.0) -> dict[str, float]:
    """A thousand events a second: how old the oldest and most events are when their batch is in gold."""
    with tempfile.TemporaryDirectory(prefix="stem-bench-") as folder:
        url = f"sqlite:///{folder}/stem.db"
        fill(url, 1000)
        written: list[tuple[int, float]] = []
        ages: list[float] = []
        stopped = threading.Event()
        seen = 0

        def told(batch: Batch) -> None:
            nonlocal seen
            now, seen = time.time(), seen + batch.events
            while written and written[0][0] <= seen:
                ages.append(now - written.pop(0)[1])

        def produce() -> None:
            offset, began = 3000, time.time()
            while not stopped.wait(max(0.0, began + (offset - 3000) / 1000 - time.time())):
                fill(url, 33, since_seconds=0.1)
                offset += 99
                written.append((offset, time.time()))

        producer = threading.Thread(target=produce)
        flow = StreamToLake(Settings(broker_url=url), f"{folder}/lake", follow=True, on_batch=told)
        end = 0.0

        def is_wanted() -> bool:
            nonlocal end
            if seen >= 3000 and not end:  # warm
                end = time.time() + seconds
                producer.start()
            return not end or time.time() < end

        flow.run(start, is_wanted=is_wanted)
        stopped.set()
        producer.join()
        ages = sorted(ages[len(ages) // 4 :])
        return {"freshness p50, s": ages[len(ages) // 2], "freshness p95, s": ages[int(len(ages) * 0.95)]}


def reporting(start: Start, attempts: int = 1_000_000) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="stem-bench-") as folder:
        url = f"sqlite:///{folder}/stem.db"
        fill(url, attempts, since_seconds=23 * 3600)
        spark = start()
        StreamToLake(Settings(broker_url=url), f"{folder}/lake").run(lambda: spark)
        spark.stop()
        spark = start()
        lake = lakes.open_lake(f"{folder}/lake")
        since, until = period(86400, time.time())

        def once() -> float:
            began = time.perf_counter()
            made = report(lake, spark, since=since, until=until)
            assert made.now.attempts == attempts
            return time.perf_counter() - began

        return {"report over 1 M attempts, s": once(), "the same again, s": once()}


def curve(start: Start, sizes: tuple[int, ...] = SIZES) -> dict[str, float]:
    """What lakes of growing size cost, each filled by one run in a warm session: the start of its stream, then its events."""
    figures = {}
    ingest(start, 200_000, events_per_batch=60_000)  # warm
    spent: dict[int, float] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="stem-bench-") as folder:
            url = f"sqlite:///{folder}/stem.db"
            fill(url, size // 3)
            cpu, wall = _cpu_seconds(), time.perf_counter()
            StreamToLake(Settings(broker_url=url), f"{folder}/lake").run(start)
            spent[size] = _cpu_seconds() - cpu
            figures[f"{size:,} events, s"] = time.perf_counter() - wall
            figures[f"{size:,} events, CPU s"] = spent[size]
            figures[f"{size:,} events, CPU s a million"] = spent[size] / size * 1e6
    return figures | (straight(spent) if len(spent) > 2 else {})


def straight(spent: Mapping[int, float]) -> dict[str, float]:
    """The line that is nearest to all sizes, by parts of what each costs: what a run costs before its first event, what a
    million events add, and how far each size lies from it."""
    sizes, costs = np.array(list(spent)), np.array(list(spent.values()))
    (fixed, slope), *_ = np.linalg.lstsq(np.stack([1 / costs, sizes / costs], axis=1), np.ones(len(costs)), rcond=None)
    off = (costs / (fixed + slope * sizes) - 1) * 100
    return {
        "curve, CPU s a run": float(fixed),
        "curve, CPU s a million more": float(slope) * 1e6,
        **{f"curve, {size:,} events off the line, %": float(each) for size, each in zip(spent, off, strict=True)},
        "curve, furthest from a straight line, %": float(np.abs(off).max()),
    }


def _cpu_seconds() -> float:
    total = sum(os.times()[:2])
    for child in psutil.Process().children(recursive=True):
        try:
            total += sum(child.cpu_times()[:4])
        except psutil.Error:
            continue
    return total


def _driver_megabytes() -> float:
    """Of this process and of its JVM."""
    own = psutil.Process()
    java = [child for child in own.children() if "java" in child.name()]
    return sum(each.memory_info().rss for each in [own, *java]) / 2**20


PARTS: dict[str, Callable[..., dict[str, float]]] = {
    "ingest": ingest,
    "freshness": freshness,
    "report": reporting,
    "curve": curve,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all, if none is named")
    parser.add_argument("--executors", type=int, default=0)
    parser.add_argument("--sizes", type=lambda text: tuple(map(int, text.split(","))), default=SIZES)
    asked = parser.parse_args()
    for name in asked.parts or PARTS:
        given = {"sizes": asked.sizes} if name == "curve" else {}
        for what, value in PARTS[name](lambda: started(asked.executors), **given).items():
            print(f"{what:<44} {value:>12,.2f}{f'   bar {BARS[what]:,}' if what in BARS else ''}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
