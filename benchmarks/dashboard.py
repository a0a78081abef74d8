"""How long the dashboard takes with 1,000,000 finished tasks in the store, against its bars.

python benchmarks/dashboard.py [sqlite] [postgres] [--tasks N] [--rounds N]

The store is filled by the database itself, as a day of a fleet would have left it, with a week of minutes. Times are of whole
requests over loopback: the page is rendered and received.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import sqlite3

import psycopg

from stem import Stem
from stem.contracts.rollups import Measures, MinuteRow
from stem.core.heartbeat import Heartbeat
from support.servers import PostgresServer
from support.web.dashboards import ServedDashboard, served

DAY = 86_400
NAMES, QUEUES, WORKERS = 20, 4, 2
FAILED_EVERY, CANCELLED_EVERY = 200, 333
OVERVIEW_BAR, ID_BAR, SEARCH_BAR = 0.150, 0.020, 0.200

SQLITE_FILL = """
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :tasks)
INSERT INTO stem_tasks (seq, ns, id, name, queue, priority, state, attempt, fence, deaths, enqueued_at, updated_at, started_at,
                        finished_at, ended_at, worker, error, meta, payload, body)
SELECT :first + i, :ns, printf('bench-%09d', i), 'shop.task' || (i % :names), 'queue' || (i % :queues), 5,
       iif(i % :failed = 0, 'failed', iif(i % :cancelled = 0, 'cancelled', 'succeeded')), 0, i, 0,
       :since + i * :every, :since + i * :every + 1, :since + i * :every + 0.5, :since + i * :every + 1,
       iif(i % :failed = 0, NULL, :since + i * :every + 1), 'w' || (i % 50),
       iif(i % :failed = 0, '{"type":"ValueError","message":"boom ' || (i % 7) || '"}', NULL), NULL, '"done"',
       iif(i % :failed = 0, '{"id":"x","name":"shop.task","args":{}}', NULL)
FROM n
"""
SQLITE_DEAD = """
INSERT INTO stem_dead (seq, task, queue, name, reason, dead_at)
SELECT seq, seq, queue, name, 'retries-exhausted', finished_at FROM stem_tasks WHERE state = 'failed' ORDER BY seq
"""
POSTGRES_FILL = """
INSERT INTO {schema}.records (ns, id, seq, fence, enqueued_at, updated_at, started_at, finished_at, kept_from, attempt, priority,
                              state, queue, name, worker, payload, error, meta)
SELECT %(ns)s, 'bench-' || lpad(i::text, 9, '0'), nextval('{schema}.task_seq'), i,
       %(since)s + i * %(every)s, %(since)s + i * %(every)s + 1, %(since)s + i * %(every)s + 0.5, %(since)s + i * %(every)s + 1,
       CASE WHEN i %% %(failed)s = 0 THEN NULL ELSE %(since)s + i * %(every)s + 1 END, 0, 5,
       CASE WHEN i %% %(failed)s = 0 THEN 'failed' WHEN i %% %(cancelled)s = 0 THEN 'cancelled' ELSE 'succeeded' END,
       'queue' || (i %% %(queues)s), 'shop.task' || (i %% %(names)s), 'w' || (i %% 50), '"done"',
       CASE WHEN i %% %(failed)s = 0 THEN '{{"type":"ValueError","message":"boom ' || (i %% 7) || '"}}' END, '{{}}'
FROM generate_series(1, %(tasks)s) AS i
"""
POSTGRES_DEAD = """
INSERT INTO {schema}.dead (ns, id, seq, dead_at, attempt, name, queue, reason, error, meta, body)
SELECT ns, id, nextval('{schema}.dead_seq_no'), finished_at, 0, name, queue, 'retries-exhausted', error, meta,
       '{{"id":"x","name":"shop.task","args":{{}}}}'
FROM {schema}.records WHERE state = 'failed' ORDER BY seq
"""


def fill_sqlite(url: str, app: Stem, tasks: int) -> None:
    first = app.store.results._namespace.first  # type: ignore[attr-defined]
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute(SQLITE_FILL, {**_spread(tasks), "first": first, "ns": first >> 40})
        connection.execute(SQLITE_DEAD)
        for series in ("seq", "dead"):
            connection.execute("INSERT INTO stem_numbers VALUES (?, ?, ?)", (first >> 40, series, tasks))
    connection.close()


def fill_postgres(url: str, app: Stem, tasks: int) -> None:
    schema = app.store.results._namespace.schema  # type: ignore[attr-defined]
    with psycopg.connect(url, autocommit=True) as connection:
        given = {**_spread(tasks), "ns": app.settings.namespace}
        connection.execute(POSTGRES_FILL.format(schema=schema), given)
        connection.execute(POSTGRES_DEAD.format(schema=schema))
        connection.execute(f"ANALYZE {schema}.records")


def _spread(tasks: int) -> dict[str, float]:
    return {
        "tasks": tasks, "names": NAMES, "queues": QUEUES, "failed": FAILED_EVERY, "cancelled": CANCELLED_EVERY,
        "since": time.time() - DAY + 60, "every": (DAY - 120) / tasks,
    }  # fmt: skip


def fill_minutes(app: Stem) -> None:
    """A week, in rows of two workers for each task in its queue; and fifty workers that live."""
    now = int(time.time()) // 60 * 60
    histograms = {"run": {20: 500, 30: 60, 41: 3}, "wait": {10: 400, 25: 160}}
    for day in range(7):
        app.store.rollups.put(
            MinuteRow(
                minute=datetime.fromtimestamp(now, UTC) - timedelta(minutes=minute),
                name=f"shop.task{name}",
                queue=f"queue{name % QUEUES}",
                worker=f"w{worker}",
                measures=Measures({"succeeded": 550, "failed": 3, "retried": 9}, {}, histograms),
            )
            for minute in range(day * 1440, (day + 1) * 1440)
            for name in range(NAMES)
            for worker in range(WORKERS)
        )
    for number in range(50):
        app.store.heartbeats.beat(
            Heartbeat(
                worker_id=f"w{number}", namespace=app.settings.namespace, host="bench", pid=number + 1, uptime_seconds=5.0,
                concurrency=8, in_flight=2, queues=[f"queue{each}" for each in range(QUEUES)], queue_depth=0,
                memory_bytes=1 << 26, load=0.5, counters={"succeeded": 20_000}, extras={},
            ),
            ttl_seconds=3600,
        )  # fmt: skip


def measure(name: str, app: Stem, tasks: int, rounds: int) -> bool:
    now = datetime.now(UTC)
    noon, ago = now - timedelta(hours=12), now - timedelta(hours=23)

    def between(since: datetime, until: datetime, **more: str) -> str:
        given = {"since": since.isoformat(), "until": until.isoformat(), **more}
        return "/tasks?" + "&".join(f"{key}={value.replace('+', '%2B')}" for key, value in given.items())

    hour = timedelta(hours=1)
    searches = {
        "overview, an hour": ("/", OVERVIEW_BAR),
        "overview, a day": ("/?range=24h", OVERVIEW_BAR),
        "overview, a week": ("/?range=7d", OVERVIEW_BAR),
        "search by id": (f"/tasks?id=bench-{tasks // 2:09d}", ID_BAR),
        "search by an id that is not there": ("/tasks?id=nothing", ID_BAR),
        "a task's page": (f"/tasks/bench-{tasks // 2:09d}", SEARCH_BAR),
        "newest tasks": ("/tasks", SEARCH_BAR),
        "failed, the last hour": ("/tasks?state=failed&since=1h", SEARCH_BAR),
        "failed, an hour 12 h ago": (between(noon, noon + hour, state="failed"), SEARCH_BAR),
        "succeeded, an hour 12 h ago": (between(noon, noon + hour, state="succeeded"), SEARCH_BAR),
        "succeeded, an hour 23 h ago": (between(ago, ago + hour, state="succeeded"), SEARCH_BAR),
        "cancelled, ever": ("/tasks?state=cancelled", SEARCH_BAR),
        "running, of which there is none": ("/tasks?state=running", SEARCH_BAR),
        "queued since an hour, none": ("/tasks?state=queued&since=1h", SEARCH_BAR),
        "dead letters": ("/dead-letters", SEARCH_BAR),
        "workers": ("/workers", SEARCH_BAR),
        "queues": ("/queues", SEARCH_BAR),
    }
    held = True
    with served(app) as board:
        for what, (path, bar) in searches.items():
            first, usual = _timed(board, path, rounds)
            is_held = usual <= bar
            held &= is_held
            print(
                f"{name:<9} {what:<34} {usual * 1000:7.1f} ms, the first {first * 1000:7.1f} ms; "
                f"{usual / bar:5.2f} of {bar * 1000:.0f} ms: {'held' if is_held else 'missed'}"
            )
    return held


def _timed(board: ServedDashboard, path: str, rounds: int) -> tuple[float, float]:
    """The first request, and the median of the others."""
    took: list[float] = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        answer = board.get(path)
        took.append(time.perf_counter() - began)
        assert answer.status == 200, (path, answer.status, answer.words[:200])
    return took[0], statistics.median(took[1:])


def run(name: str, url: str, fill: Callable[[str, Stem, int], None], tasks: int, rounds: int) -> bool:
    with Stem(url, namespace="bench") as app:
        app.store.upkeep.now()
        began = time.perf_counter()
        fill(url, app, tasks)
        fill_minutes(app)
        print(f"{name:<9} {tasks:,} finished tasks, {7 * 1440 * NAMES * WORKERS:,} rows of minutes, filled in "
              f"{time.perf_counter() - began:.0f} s")  # fmt: skip
        return measure(name, app, tasks, rounds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", nargs="*", default=["sqlite", "postgres"])
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    asked = parser.parse_args()
    print(f"dashboard, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores")
    held = True
    with tempfile.TemporaryDirectory() as directory:
        if "sqlite" in asked.stores:
            held &= run("sqlite", f"sqlite:///{directory}/stem.db", fill_sqlite, asked.tasks, asked.rounds)
        if "postgres" in asked.stores:
            server = PostgresServer()
            try:
                held &= run("postgres", server.url, fill_postgres, asked.tasks, asked.rounds)
            finally:
                with suppress(OSError):
                    server.close()
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
