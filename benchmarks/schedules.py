"""What a scheduler costs that has 10,000 entries, while one of them is edited every second: CPU, and how late it fires.

python benchmarks/schedules.py [sqlite] [redis] [postgres] [--entries N] [--seconds N]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from stem.backends import connect
from stem.contracts.schedules import ScheduleEntry
from stem.contracts.store import Store
from stem.core.settings.app import Settings
from stem.runtime.keys import Keyring
from stem.scheduler.entries import EntryWriter
from support.servers import PostgresServer, RedisServer

CORE_BAR, LATE_BAR = 0.05, 1.0
QUICK = 10  # entries that fire every second; the others fire once per hour, spread over it


def measure(name: str, url: str, entries: int, seconds: float) -> None:
    store = connect(url, Settings(namespace="bench"))
    writer = EntryWriter(store, Keyring({}))
    for number in range(entries):
        spec = "every 1 second" if number < QUICK else f"{number % 60} * * * *"
        writer.save(ScheduleEntry(id=f"e{number}", task="it", spec=spec), None)
    variables = {**os.environ, "STEM_BROKER_URL": url, "STEM_NAMESPACE": "bench"}
    process = subprocess.Popen([sys.executable, "-m", "stem", "beat", "-l", "error"], env=variables)
    try:
        while not _runs(store):
            time.sleep(0.1)
        beat = psutil.Process(process.pid)
        before, began = beat.cpu_times(), time.monotonic()
        while time.monotonic() - began < seconds:
            writer.change(f"e{entries - 1}", note=str(time.monotonic()))
            time.sleep(1.0)
        after, wall = beat.cpu_times(), time.monotonic() - began
    finally:
        process.terminate()
        process.wait()
    share = (after.user + after.system - before.user - before.system) / wall
    lates = [
        (run.at - run.instant).total_seconds()
        for number in range(QUICK)
        if (found := store.schedules.get(f"e{number}")) is not None
        for run in found.state.history[-int(seconds) :]
    ]
    store.upkeep.close()
    print(
        f"{name:<9} {entries:,} entries: {share:.1%} of a core (bar {CORE_BAR:.0%}: {_held(share <= CORE_BAR)}); "
        f"{len(lates)} runs, the latest {max(lates):.2f} s late (bar {LATE_BAR:g} s: {_held(max(lates) <= LATE_BAR)})"
    )


def _runs(store: Store) -> int:
    found = store.schedules.get("e0")
    return 0 if found is None else found.state.run_count


def _held(is_held: bool) -> str:
    return "held" if is_held else "missed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", nargs="*", default=["sqlite", "redis", "postgres"])
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args()
    print(f"schedules, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores")
    for name in asked.stores:
        if name == "sqlite":
            with tempfile.TemporaryDirectory() as place:
                measure(name, f"sqlite:///{place}/stem.db", asked.entries, asked.seconds)
            continue
        server = RedisServer() if name == "redis" else PostgresServer()
        try:
            measure(name, server.url, asked.entries, asked.seconds)
        finally:
            server.close()


if __name__ == "__main__":
    main()
