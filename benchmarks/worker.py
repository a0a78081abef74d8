"""How fast a real worker is, on each store: drain, steady load, latency, CPU-bound work, start-up, idle cost.

At least once, results and events on. One worker process with two isolates; all on this machine, in one run. CPU a task is
that of worker, isolates and server together.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import reload
from multiprocessing import get_context
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE)]
import shop  # noqa: E402
from stem.core.lifecycle import EventKind  # noqa: E402
from support.servers import PostgresServer, RedisServer  # noqa: E402
from support.until import until  # noqa: E402

BACKENDS = ("sqlite", "redis", "postgres")
ISOLATES = 2
LATENCY_RATE = 100.0

BARS = {  # backend: drain/s at least, p50 latency in ms at most
    "sqlite": (15_000, 5.0),
    "redis": (15_000, 2.0),
    "postgres": (8_000, 2.0),
}
P99_MS, EFFICIENCY, START_SECONDS, IDLE_MB, IDLE_CORE = 20.0, 0.95, 0.5, 80.0, 0.01


@dataclass
class Place:
    """One store to work on, and the processes it costs."""

    url: str
    server: psutil.Process | None = None
    count: int = 0

    def cpu(self) -> float:
        """Seconds that the server has taken so far, its processes and those that have ended included."""
        if self.server is None:
            return 0.0
        ended = self.server.cpu_times()
        return cpu_of([self.server, *self.server.children()]) + ended.children_user + ended.children_system

    @contextmanager
    def fresh(self) -> Iterator[None]:
        """The benchmark's app on an empty space of the store."""
        self.count += 1
        os.environ["STEM_BROKER_URL"] = self.url if "sqlite" not in self.url else f"{self.url}{self.count}.db"
        os.environ["STEM_NAMESPACE"] = f"bench{self.count}"
        os.environ["STEM_EVENTS_COUNT"] = "10000000"
        reload(shop)
        try:
            yield
        finally:
            shop.app.close()


@dataclass
class Report:
    rows: list[tuple[str, str, str, bool | None]] = field(default_factory=list)

    def add(self, what: str, figure: str, bar: str = "", held: bool | None = None) -> None:
        self.rows.append((what, figure, bar, held))
        print(f"  {what:<34} {figure:<44} {bar:<18} {'' if held is None else 'held' if held else 'MISSED'}", flush=True)


def main() -> int:
    arguments = parse()
    console, held = Console(), True
    for backend in arguments.backend or BACKENDS:
        print(f"{backend}:", flush=True)
        report = Report()
        with place_of(backend) as place:
            measure(place, backend, report, arguments)
        table = Table("figure", "measured", "bar", "", title=f"worker on {backend}, {ISOLATES} isolates")
        for what, figure, bar, is_held in report.rows:
            table.add_row(what, figure, bar, "" if is_held is None else "held" if is_held else "[red]missed[/]")
            held = held and is_held is not False
        console.print(table)
    return 0 if held or not arguments.strict else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--tasks", type=int, default=20_000, help="how many the drain drains")
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        help="of a drain, of which the best counts, and of the latency, of which the middle one does",
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of the steady load, the latency and the idling")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a bar is missed")
    return parser.parse_args()


def measure(place: Place, backend: str, report: Report, arguments: argparse.Namespace) -> None:
    drain_bar, p50_bar = BARS[backend]
    drains = [drain(place, arguments.tasks) for _ in range(arguments.rounds)]
    rate, cpu = max(drains)
    report.add(
        f"drain of {arguments.tasks:,} no-ops",
        f"{rate:,.0f}/s, {cpu:.0f} µs CPU (rounds {', '.join(f'{each:,.0f}' for each, _ in drains)})",
        f">= {drain_bar:,}/s",
        rate >= drain_bar,
    )
    rate, cpu = steady(place, arguments.seconds / 2)
    report.add("steady producer and worker", f"{rate:,.0f}/s, {cpu:.0f} µs CPU with the producer's")
    latencies = [latency(place, arguments.seconds) for _ in range(arguments.rounds)]
    rounds = ", ".join(f"{p50:.2f} and {p99:.1f}" for p50, p99 in latencies)
    p50, p99 = sorted(latencies)[len(latencies) // 2]
    report.add("enqueue to start at 100/s, p50", f"{p50:.2f} ms", f"<= {p50_bar:g} ms", p50 <= p50_bar)
    report.add("enqueue to start at 100/s, p99", f"{p99:.2f} ms (rounds {rounds})", f"<= {P99_MS:g} ms", p99 <= P99_MS)
    share = efficiency(place)
    report.add("CPU-bound, against bare processes", f"{share:.3f}", f">= {EFFICIENCY}", share >= EFFICIENCY)
    seconds = min(start_up(place) for _ in range(3))
    report.add("start to first task", f"{seconds:.3f} s", f"<= {START_SECONDS} s", seconds <= START_SECONDS)
    megabytes, share = idle(place, arguments.seconds)
    report.add("idle tree, proportional memory", f"{megabytes:.1f} MB", f"<= {IDLE_MB:g} MB", megabytes <= IDLE_MB)
    report.add("idle tree, share of a core", f"{share:.2%}", f"< {IDLE_CORE:.0%}", share < IDLE_CORE)


def drain(place: Place, tasks: int) -> tuple[float, float]:
    """Tasks a second from the first start to the last end, by the store's clock; CPU a task in µs."""
    with place.fresh():
        shop.noop.enqueue_many({"n": number} for number in range(tasks))
        before = place.cpu()
        with worker() as tree:
            until(is_empty, seconds=120, every=0.2)
            cpu = place.cpu() - before + cpu_of(tree())
        return tasks / span(), cpu / tasks * 1e6


def steady(place: Place, seconds: float) -> tuple[float, float]:
    """A producer sends as fast as it can, in chunks of a hundred, while the worker runs."""
    with place.fresh(), worker() as tree:
        before = place.cpu() + time.process_time()
        end, sent = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            sent += shop.noop.enqueue_many(({"n": number} for number in range(100)), chunk=100).created
            if sent % 2000 == 0 and waiting() > 20_000:  # let it keep up: this is about both at once
                time.sleep(0.01)
        until(is_empty, seconds=120, every=0.1)
        cpu = place.cpu() + time.process_time() - before + cpu_of(tree())
        return sent / span(), cpu / sent * 1e6


def latency(place: Place, seconds: float) -> tuple[float, float]:
    """From the call of enqueue to the first line of the handler, in ms: p50 and p99."""
    with place.fresh(), worker():
        shop.stamp.enqueue().get(timeout=30)
        handles, start = [], time.monotonic()
        for number in range(int(seconds * LATENCY_RATE)):
            time.sleep(max(0.0, start + number / LATENCY_RATE - time.monotonic()))
            called_at = time.time()
            handles.append((called_at, shop.stamp.enqueue()))
        waits = sorted((handle.get(timeout=30) - called_at) * 1000 for called_at, handle in handles)
        return waits[len(waits) // 2], waits[int(len(waits) * 0.99)]


def efficiency(place: Place, *, tasks: int = 60) -> float:
    """The time two bare processes take for the work, over the time the worker takes for it."""
    start, rounds = time.perf_counter(), 200_000
    shop.work(rounds)
    rounds = int(rounds * 0.1 / (time.perf_counter() - start))
    shares = []
    for _ in range(3):
        bare = bare_seconds(rounds, tasks)
        with place.fresh():
            shop.crunch.enqueue_many({"rounds": rounds} for _ in range(tasks))
            with worker():
                until(is_empty, seconds=120, every=0.2)
            shares.append(bare / span())
    return max(shares)


def bare_seconds(rounds: int, tasks: int) -> float:
    context = get_context("fork")
    start = time.perf_counter()
    processes = [context.Process(target=crunch_on, args=(rounds, tasks // ISOLATES)) for _ in range(ISOLATES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return time.perf_counter() - start


def crunch_on(rounds: int, tasks: int) -> None:
    for _ in range(tasks):
        shop.work(rounds)


def start_up(place: Place) -> float:
    """From the start of the command to the first line of a handler that waited for it."""
    with place.fresh():
        handle = shop.stamp.enqueue()
        called_at = time.time()
        with worker(waits=False):
            return handle.get(timeout=30) - called_at


def idle(place: Place, seconds: float) -> tuple[float, float]:
    """Memory of the tree in MB, shared pages counted once, and the share of a core it uses with nothing to do."""
    with place.fresh(), worker() as tree:
        shop.stamp.enqueue().get(timeout=30)
        time.sleep(1.0)  # what the first task stirred up has settled
        before = cpu_of(tree())
        time.sleep(seconds)
        share = (cpu_of(tree()) - before) / seconds
        return sum(process.memory_full_info().pss for process in tree()) / 1e6, share


@contextmanager
def worker(*, waits: bool = True, stem: Sequence[str] = ("-m", "stem")) -> "Iterator[Tree]":
    """A real worker process on the app's store; `stem` starts the command line. Ended by TERM, as in life."""
    command = [sys.executable, *stem, "worker", "start", "--app", "shop:app", "--concurrency", str(ISOLATES)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, cwd=HERE, stdout=log, stderr=log)
        try:
            if waits:
                until(shop.app.store.heartbeats.all, seconds=30)
            yield Tree(process.pid)
        finally:
            process.terminate()
            process.wait(30)


@dataclass
class Tree:
    pid: int

    def __call__(self) -> list[psutil.Process]:
        root = psutil.Process(self.pid)
        return [root, *root.children(recursive=True)]


def cpu_of(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes if process.is_running()]
    return sum(spent.user + spent.system for spent in times)


def is_empty() -> bool:
    depth = shop.app.store.broker.depth(["default"])["default"]
    return depth.ready + depth.delayed + depth.running + depth.blocked == 0


def waiting() -> int:
    return shop.app.store.broker.depth(["default"])["default"].ready


def span(name: str | None = None) -> float:
    """From the first start to the last success, of all tasks or those of a name, read off the event log."""
    started, finished, offset = [], [], None
    while events := shop.app.store.events.read(offset, limit=10_000):
        offset = events[-1].offset
        for event in events:
            is_counted = event.kind is EventKind.SUCCEEDED and name in (None, event.name)
            if is_counted and event.started_at is not None:
                started.append(event.started_at)
                finished.append(event.at)
    return (max(finished) - min(started)).total_seconds()


@contextmanager
def place_of(backend: str) -> Iterator[Place]:
    if backend == "sqlite":
        directory = tempfile.mkdtemp(prefix="stem-bench-", dir=HERE.parent)  # on a disk, not in memory
        try:
            yield Place(f"sqlite:///{directory}/")
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        return
    if backend == "redis":
        redis = RedisServer()
        assert redis.process is not None
        try:
            yield Place(redis.url, psutil.Process(redis.process.pid))
        finally:
            redis.close()
        return
    postgres = PostgresServer()
    try:
        yield Place(postgres.url, psutil.Process(postgres.pid))
    finally:
        postgres.close()


if __name__ == "__main__":
    sys.exit(main())
