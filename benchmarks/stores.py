"""How fast each store takes tasks in and lets them go, and whether claims stay flat as it fills. Prints figures and bars.

Everything is compared within one run: machines are noisy, ratios are not. CPU per task is given beside each rate, the
client's and the server's together.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import urandom
from pathlib import Path

import msgspec
import psutil
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from stem.backends import connect
from stem.contracts.store import Store
from stem.core.delivery import Ending
from stem.core.envelope import VERSION, Envelope, Push
from stem.core.ids import uuid7
from stem.core.outcome import Done
from stem.core.settings.app import Retention, Settings
from support.servers import PostgresServer, RedisServer

QUEUE = "bench"
BATCHES = (1, 10, 100, 1000)
CHUNK = 1000
ROUNDS = 5
KEPT = Retention(events_count=10_000_000)

BARS = {  # backend: (bulk enqueue/s, claim + settle/s); every backend: bulk >= 10 x single, flat within 20 %
    "sqlite": (50_000, 30_000),
    "redis": (50_000, 25_000),
    "postgres": (30_000, 14_000),
}


@dataclass
class Rate:
    per_second: float
    cpu_micros: float

    def __str__(self) -> str:
        return f"{self.per_second:>9,.0f}/s {self.cpu_micros:>6.1f} µs"


@dataclass
class Bench:
    """A store of one technology and the processes whose CPU it costs."""

    backend: str
    open: Callable[[str], Store]  # by a name: an empty store of its own, not just another namespace
    servers: Callable[[], list[psutil.Process]]
    notes: list[str] = field(default_factory=list)

    def cpu(self) -> float:
        times = [process.cpu_times() for process in self.servers() if process.is_running()]
        return time.process_time() + sum(spent.user + spent.system for spent in times)

    def measure(self, work: Callable[[], int], *, prepare: Callable[[], object] = int) -> Rate:
        """The best of five rounds: what disturbs a round only ever makes it slower."""
        return max((self._round(work, prepare) for _ in range(ROUNDS)), key=lambda rate: rate.per_second)

    def _round(self, work: Callable[[], int], prepare: Callable[[], object]) -> Rate:
        prepare()
        cpu, start = self.cpu(), time.perf_counter()
        tasks = work()
        seconds = time.perf_counter() - start
        return Rate(tasks / seconds, (self.cpu() - cpu) / tasks * 1e6)


def main() -> int:
    arguments = parse()
    console = Console(width=120)
    missed = 0
    rates = Table(
        "store", "single enqueue", "bulk enqueue", *(f"claim+settle ×{n}" for n in BATCHES), title="tasks/s, CPU/task"
    )
    latency = Table(
        "store", "others in the store", "claim of 10", "empty store", "ratio", title="claim latency, median"
    )
    verdicts = Table("store", "bar", "seen", "", title="bars")
    for backend in arguments.backend or ("memory", *BARS):
        with bench_of(backend) as bench:
            single, bulk, settled = throughput(bench, arguments.tasks)
            rates.add_row(backend, str(single), str(bulk), *(str(rate) for rate in settled))
            flat = {}
            for others, label in loads(arguments.most):
                console.print(f"{backend}: claim latency with {label} …", style="dim")
                flat[label] = loaded, empty = claim_latency(bench, others, finished="finished" in label)
                latency.add_row(
                    backend, label, f"{loaded * 1e3:.3f} ms", f"{empty * 1e3:.3f} ms", f"{loaded / empty:.2f}"
                )
        for name, seen, bar in judged(backend, single, bulk, settled, flat):
            held = seen <= bar if name.startswith("claim at") else seen >= bar
            missed += not held
            verdicts.add_row(backend, name, f"{seen:,.2f} (bar {bar:,})", "held" if held else "MISSED")
    console.print(rates, latency, verdicts)
    return 1 if missed and arguments.strict else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backend", action="append", choices=["memory", *BARS], help="only this one (repeatable)")
    parser.add_argument("--tasks", type=int, default=100_000, help="tasks for the bulk figures")
    parser.add_argument("--most", type=int, default=1_000_000, help="the fullest store for claim latency")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a bar is missed")
    return parser.parse_args()


def loads(most: int) -> list[tuple[int, str]]:
    return [
        (0, "nothing"),
        (most // 10, f"{most // 10:,} queued"),
        (most, f"{most:,} queued"),
        (most, f"{most:,} finished"),
    ]


def judged(
    backend: str, single: Rate, bulk: Rate, settled: list[Rate], flat: dict[str, tuple[float, float]]
) -> Iterator[tuple[str, float, float]]:
    if backend in BARS:
        bulk_bar, settle_bar = BARS[backend]
        yield "bulk enqueue/s", bulk.per_second, bulk_bar
        yield "bulk ÷ single", bulk.per_second / single.per_second, 10
        yield "claim + settle/s, best batch", max(rate.per_second for rate in settled), settle_bar
        for label, (loaded, empty) in flat.items():
            yield f"claim at {label} ÷ empty", loaded / empty, 1.2


def throughput(bench: Bench, tasks: int) -> tuple[Rate, Rate, list[Rate]]:
    store = bench.open("throughput")
    push(store, CHUNK)  # warm
    single = bench.measure(lambda: push(store, tasks // 100, chunk=1))
    bulk = bench.measure(lambda: push(store, tasks // ROUNDS))
    drain(store, 1000)
    settled = []
    for batch in BATCHES:
        amount = min(tasks // ROUNDS, max(1000, batch * 100))
        rate = bench.measure(lambda batch=batch: drain(store, batch), prepare=lambda n=amount: push(store, n))  # type: ignore[misc]
        settled.append(rate)
    store.upkeep.close()
    return single, bulk, settled


def claim_latency(bench: Bench, others: int, *, finished: bool) -> tuple[float, float]:
    """Medians of claims from a loaded and from an empty store, taken in turns so that noise hits both alike."""
    loaded, empty = bench.open(f"loaded{others}{finished}"), bench.open(f"empty{others}{finished}")
    push(loaded, others)
    if finished:
        drain(loaded, 1000)
    for _ in range(20):
        timed_claim(loaded), timed_claim(empty)
    pairs = [(timed_claim(loaded), timed_claim(empty)) for _ in range(300)]
    loaded.upkeep.close()
    empty.upkeep.close()
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def timed_claim(store: Store, limit: int = 10) -> float:
    push(store, limit)
    start = time.perf_counter()
    deliveries = store.broker.claim([QUEUE], limit=limit, lease_seconds=60)
    seconds = time.perf_counter() - start
    assert len(deliveries) == limit
    store.broker.settle([Ending(d.lease, Done(msgspec.Raw(b"null")), 0.0) for d in deliveries], worker="bench")
    return seconds


def push(store: Store, tasks: int, *, chunk: int = CHUNK) -> int:
    for first in range(0, tasks, chunk):
        store.broker.push([Push(envelope()) for _ in range(min(chunk, tasks - first))])
    return tasks


def drain(store: Store, batch: int) -> int:
    done = 0
    payload = msgspec.Raw(b"null")
    while deliveries := store.broker.claim([QUEUE], limit=batch, lease_seconds=60):
        refused = store.broker.settle([Ending(d.lease, Done(payload), 0.001) for d in deliveries], worker="bench")
        assert not refused
        done += len(deliveries)
    return done


def envelope() -> Envelope:
    return Envelope(
        id=uuid7(time.time(), urandom(10)),
        name="bench.noop",
        args=msgspec.Raw(b'{"customer":42,"template":"welcome"}'),
        headers={},
        enqueued_at=datetime.now(UTC),
        not_before=None,
        priority=5,
        attempt=0,
        max_retries=3,
        visibility_timeout=None,
        queue=QUEUE,
        meta={},
        version=VERSION,
    )


@contextmanager
def bench_of(backend: str) -> Iterator[Bench]:
    settings = Settings(namespace="bench", timeout_seconds=60, retention=KEPT)
    if backend == "memory":
        yield Bench(backend, lambda name: connect(f"memory://{name}", settings), list)
    elif backend == "sqlite":
        directory = tempfile.mkdtemp(prefix="stem-bench-")
        yield Bench(backend, lambda name: connect(f"sqlite:///{directory}/{name}.db", settings), list)
        shutil.rmtree(directory)
    elif backend == "redis":
        redis = RedisServer()
        assert redis.process is not None
        process = psutil.Process(redis.process.pid)
        base = redis.url.rpartition("/")[0]
        numbers: dict[str, int] = {}
        yield Bench(
            backend,
            lambda name: connect(f"{base}/{numbers.setdefault(name, len(numbers))}", settings),
            lambda: [process],
        )
        redis.close()
    else:
        postgres = PostgresServer()
        joiner = "&" if "?" in postgres.url else "?"
        master = psutil.Process(postgres.pid)
        yield Bench(
            backend,
            lambda name: connect(f"{postgres.url}{joiner}schema=bench_{name}".lower(), settings),
            lambda: master.children(recursive=True),
        )
        postgres.close()


if __name__ == "__main__":
    sys.exit(main())
