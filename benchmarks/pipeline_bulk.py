"""How fast one task runs over a DataFrame: items a second with their results stored, and what each costs in CPU.

python benchmarks/pipeline_bulk.py [--rows N] [--executors N]
"""

import argparse
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from pipeline_session import started
from stem import Stem

ROWS = 1_000_000
ROUNDS = 3

app = Stem("memory://bench-bulk")


@app.task(name="next", max_retries=0)
def following(id: int) -> int:
    return id + 1


def bulk(spark: SparkSession, rows: int = ROWS) -> dict[str, float]:
    """The best of some rounds in a warm session, two partitions."""
    best: dict[str, float] = {"items_per_second": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        _run(spark, 1000, Path(folder) / "warm")
        for number in range(ROUNDS):
            cpu, began_at = _cpu_seconds(), time.perf_counter()
            _run(spark, rows, Path(folder) / str(number))
            seconds = time.perf_counter() - began_at
            if rows / seconds > best["items_per_second"]:
                best = {
                    "items_per_second": round(rows / seconds),
                    "cpu_us_per_item": round((_cpu_seconds() - cpu) / rows * 1e6, 2),
                }
    return best


def _run(spark: SparkSession, rows: int, table: Path) -> None:
    here = f"{Path(__file__).resolve()}:app"
    summary = app.bulk("next").over(spark.range(0, rows, 1, 2), app=here).to(table)
    if (summary.items, summary.failed) != (rows, 0):
        raise SystemExit(f"{summary} is not what was asked for.")


def _cpu_seconds() -> float:
    """Of this process, the JVM and its Pythons, with the children that they have waited for."""
    total = 0.0
    for each in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            t = each.cpu_times()
            total += t.user + t.system + t.children_user + t.children_system
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--executors", type=int, default=0)
    asked = parser.parse_args()
    spark = started(asked.executors)
    print(bulk(spark, asked.rows))
    spark.stop()


if __name__ == "__main__":
    main()
