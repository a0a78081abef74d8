"""Stem and the task queues that a user would pick instead: how fast each enqueues and drains no-ops, in one run, by turns.

The others are installed as benchmarks/peers.txt pins them, into .venv-peers. Each has two worker processes, an empty server of
its own kind on loopback (Redis with its append-only file, Postgres with fsync), and the same no-op, which appends one byte to a
file. A drain is timed from the first byte to the last, or until --seconds are over; that of Stem, which writes endings in
batches, until the store has them all. CPU per task is that of worker and server in that time, without the start.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
ROOT, APPS = HERE.parent, HERE / "peer_apps"
sys.path[:0] = [str(ROOT / "tests")]
from stem import Stem  # noqa: E402
from support.servers import PostgresServer, RedisServer  # noqa: E402

START_SECONDS = 30.0


@dataclass(frozen=True)
class Peer:
    name: str
    app: str  # in peer_apps/; also sends
    worker: tuple[str, ...]
    guarantee: str
    server: type[RedisServer] | type[PostgresServer] = RedisServer
    processes: int = 1  # how often the command is started
    venv: str = ".venv-peers"


_STEM = ("-m", "stem", "worker", "start", "--app", "stem_app:app", "--concurrency", "2")
_LEASED = "at least once, results, events"
PEERS = (
    Peer("stem on Redis", "stem_app", _STEM, _LEASED, venv=".venv"),
    Peer("stem on Postgres", "stem_app", _STEM, _LEASED, PostgresServer, venv=".venv"),
    Peer(
        "celery",
        "celery_app",
        ("-m", "celery", "-A", "celery_app", "worker", "--pool=prefork", "--concurrency=2", "--loglevel=ERROR"),
        "at least once (acks_late; redelivered after 1 h), results",
    ),
    Peer(
        "dramatiq",
        "dramatiq_app",
        ("-m", "dramatiq", "dramatiq_app", "--processes=2"),
        "at least once, results; 8 threads per process",
    ),
    Peer(
        "rq",
        "rq_app",
        ("-m", "rq.cli", "worker-pool", "-n", "2", "--logging-level", "ERROR", "--quiet"),
        "a job of a dead worker fails unless it has a Retry; results; one fork per task",
    ),
    Peer(
        "huey",
        "huey_app",
        ("-m", "huey.bin.huey_consumer", "huey_app.huey", "-w", "2", "-k", "process", "--quiet"),
        "at most once (taken before the run), results",
    ),
    Peer(
        "taskiq",
        "taskiq_app",
        ("-m", "taskiq", "worker", "taskiq_app:broker", "--workers=2", "--log-level=ERROR"),
        "at least once (stream, acknowledged after the run), results; coroutine",
    ),
    Peer(
        "arq",
        "arq_app",
        ("-m", "arq", "arq_app.WorkerSettings"),
        "at least once, results; coroutine",
        processes=2,
    ),
    Peer(
        "saq", "saq_app", ("-m", "saq", "saq_app.settings", "--workers=2"), "at least once (sweep), results; coroutine"
    ),
    Peer(
        "procrastinate",
        "procrastinate_app",
        ("-m", "procrastinate", "--app=procrastinate_app.app", "worker", "--concurrency=10"),
        "stalled jobs are retried only by a task of yours; no results; coroutine",
        PostgresServer,
        processes=2,
    ),
)


class Drained(NamedTuple):
    sent: float  # per second
    drained: float  # per second
    cpu: float  # µs per task


def main() -> int:
    arguments = parse()
    found: dict[str, list[Drained | str]] = {}
    for _ in range(arguments.rounds):
        for peer in PEERS:
            if not arguments.only or peer.name.split()[0] in arguments.only:
                result = measured(peer, arguments)
                found.setdefault(peer.name, []).append(result)
                print(f"  {peer.name:<18} {result}", file=sys.stderr, flush=True)
    Console(width=150).print(table(found))
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=5_000)
    parser.add_argument("--seconds", type=float, default=15.0, help="of a drain at most")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", help="the name of a peer, or stem")
    return parser.parse_args()


def table(found: dict[str, list[Drained | str]]) -> Table:
    made = Table("", "enqueue/s", "drain/s", "µs CPU per task", "guarantee as run, or why it did not run")
    for peer in PEERS:
        rounds = [each for each in found.get(peer.name, []) if isinstance(each, Drained)]
        if rounds:
            middle = [f"{median(column):,.0f}" for column in zip(*rounds, strict=True)]
            made.add_row(peer.name, *middle, peer.guarantee)
        elif peer.name in found:
            made.add_row(peer.name, "", "", "", str(found[peer.name][-1]))
    return made


def measured(peer: Peer, arguments: argparse.Namespace) -> Drained | str:
    """One round on an empty server; or why there is none."""
    python = ROOT / peer.venv / "bin/python"
    if not python.exists():
        return f"{peer.venv} is missing; run make bench-peers"
    server = peer.server()
    with ExitStack() as stack:
        stack.callback(server.close)
        marks = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "marks"
        marks.touch()
        environment = {**os.environ, "PEER_MARKS": str(marks), "PEER_URL": server.url, "STEM_BROKER_URL": server.url}
        environment |= {"PYTHONPATH": str(APPS), "RQ_REDIS_URL": server.url}
        sender = [str(python), f"{peer.app}.py", str(arguments.tasks)]
        sent = subprocess.run(sender, cwd=APPS, env=environment, capture_output=True, text=True, timeout=120)
        if sent.returncode:
            return f"enqueue failed: {last_line(sent.stderr)}"
        seconds = json.loads(sent.stdout.splitlines()[-1])[0]
        pid = server.process.pid if isinstance(server, RedisServer) and server.process else getattr(server, "pid", 0)
        is_settled = stack.enter_context(settled(server.url)) if peer.app == "stem_app" else lambda: True
        with workers(peer, [str(python), *peer.worker], environment) as started:
            drained = drain(marks, is_settled, started, psutil.Process(pid), arguments)
        return drained if isinstance(drained, str) else Drained(arguments.tasks / seconds, *drained)


def drain(
    marks: Path,
    is_settled: Callable[[], bool],
    started: list[psutil.Process],
    server: psutil.Process,
    arguments: argparse.Namespace,
) -> tuple[float, float] | str:
    deadline = time.monotonic() + START_SECONDS
    while not (first := marks.stat().st_size):
        if time.monotonic() > deadline or not any(process.is_running() for process in started):
            return "its worker ran nothing"
        time.sleep(0.002)
    began_at, cpu = time.monotonic(), cpu_of([*started, server])
    while (done := marks.stat().st_size) < arguments.tasks and time.monotonic() - began_at < arguments.seconds:
        time.sleep(0.005)
    while done >= arguments.tasks and not is_settled():
        time.sleep(0.005)
    ran, seconds = done - first, time.monotonic() - began_at
    return ran / seconds, (cpu_of([*started, server]) - cpu) / ran * 1e6


@contextmanager
def settled(url: str) -> Iterator[Callable[[], bool]]:
    """Whether the store has the endings of all tasks."""
    app = Stem(url)
    try:
        yield lambda: (depth := app.store.broker.depth(["default"])["default"]).ready + depth.running == 0
    finally:
        app.close()


def cpu_of(roots: list[psutil.Process]) -> float:
    """Seconds of these processes, their descendants, and what descendants that have ended took."""
    total = 0.0
    for root in roots:
        for process in [root, *root.children(recursive=True)]:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system + times.children_user + times.children_system
    return total


@contextmanager
def workers(peer: Peer, command: list[str], environment: dict[str, str]) -> Iterator[list[psutil.Process]]:
    processes = [
        subprocess.Popen(command, cwd=APPS, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(peer.processes)
    ]
    roots = [psutil.Process(process.pid) for process in processes]
    try:
        yield roots
    finally:
        trees = [each for root in roots for each in [root, *root.children(recursive=True)]]
        for process in processes:
            process.terminate()
        _, left = psutil.wait_procs(trees, timeout=5)
        for each in left:
            each.kill()
        for process in processes:
            process.wait(10)


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1][:120]


if __name__ == "__main__":
    sys.exit(main())
