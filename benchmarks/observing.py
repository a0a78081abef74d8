"""What it costs a worker to be observed: metrics, minute counts and task logs, on against off; and a follower of its events.

By turns, in one run; the median of the rounds counts. Off is the same worker with both settings off and with metrics that count
nothing (unobserved.py). The follower is `stem observe events --follow --json` beside a worker whose two isolates are busy with
tasks of about 4 ms, which makes about 1,000 events per second; follower and worker share this machine's cores.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE)]
import shop  # noqa: E402
from support.until import until  # noqa: E402
from worker import BACKENDS, Place, Report, cpu_of, is_empty, place_of, span, worker  # noqa: E402

OBSERVED_BAR, FOLLOWED_BAR = 1.05, 1.03
OFF = {"STEM_TASK_LOGS": "false", "STEM_MINUTE_COUNTS": "false"}
TASK_SECONDS, FOLLOWED_TASKS = 0.004, 1000

Figures = tuple[float, float]  # seconds and CPU seconds


def main() -> int:
    arguments = parse()
    for backend in arguments.backend or BACKENDS:
        print(f"{backend}:", flush=True)
        with place_of(backend) as place:
            measure(place, Report(), arguments)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--tasks", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def measure(place: Place, report: Report, arguments: argparse.Namespace) -> None:
    def drained(name: str, *, is_on: bool) -> Callable[[], Figures]:
        tasks = arguments.tasks if name == "noop" else arguments.tasks // 4
        return lambda: drain(place, name, tasks, is_on=is_on)

    off, on = by_turns(arguments.rounds, drained("noop", is_on=False), drained("noop", is_on=True))
    report.add("no-ops, observed over not", ratios(off, on), f"<= {OBSERVED_BAR}", on[0] / off[0] <= OBSERVED_BAR)
    off, on = by_turns(arguments.rounds, drained("say", is_on=False), drained("say", is_on=True))
    report.add("tasks that print a line each", ratios(off, on))
    rounds = loop_rounds()
    off, on = by_turns(
        arguments.rounds,
        lambda: followed(place, rounds, is_followed=False),
        lambda: followed(place, rounds, is_followed=True),
    )
    report.add("busy worker, followed over not", ratios(off, on), f"<= {FOLLOWED_BAR}", on[0] / off[0] <= FOLLOWED_BAR)


def by_turns(rounds: int, one: Callable[[], Figures], other: Callable[[], Figures]) -> tuple[Figures, Figures]:
    """Medians of both."""
    found: tuple[list[Figures], list[Figures]] = ([], [])
    for _ in range(rounds):
        found[0].append(one())
        found[1].append(other())
    first, second = ((median(each[0] for each in figures), median(each[1] for each in figures)) for figures in found)
    return first, second


def ratios(off: Figures, on: Figures) -> str:
    return f"{on[0] / off[0]:.3f} in time ({off[0]:.2f} → {on[0]:.2f} s), {on[1] / off[1]:.3f} in CPU"


def drain(place: Place, name: str, tasks: int, *, is_on: bool) -> Figures:
    with ExitStack() as stack:
        stack.enter_context(variables({} if is_on else OFF))
        stack.enter_context(place.fresh())
        getattr(shop, name).enqueue_many({"n": number} for number in range(tasks))
        before = place.cpu()
        tree = stack.enter_context(worker(stem=("-m", "stem") if is_on else ("unobserved.py",)))
        until(is_empty, seconds=120, every=0.05)
        cpu = place.cpu() - before + cpu_of(tree())
        return span(), cpu


def followed(place: Place, rounds: int, *, is_followed: bool) -> Figures:
    with ExitStack() as stack:
        stack.enter_context(place.fresh())
        shop.crunch.enqueue_many({"rounds": rounds} for _ in range(FOLLOWED_TASKS))
        if is_followed:
            stack.enter_context(follower())
        before = place.cpu()
        tree = stack.enter_context(worker())
        until(is_empty, seconds=120, every=0.05)
        return span(), place.cpu() - before + cpu_of(tree())


@contextmanager
def follower() -> Iterator[None]:
    """Follows the event log. Its first line says that it has begun."""
    command = [sys.executable, "-m", "stem", "observe", "events", "--follow", "--json", "--since", "1h"]
    process = subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    sink = None
    try:
        if not process.stdout.readline():
            sys.exit("stem observe events has ended at once")
        sink = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)
        yield
    finally:
        process.terminate()
        process.wait(10)
        if sink is not None:
            sink.wait(10)


@contextmanager
def variables(values: dict[str, str]) -> Iterator[None]:
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]


def loop_rounds() -> int:
    """How many rounds of `work` take TASK_SECONDS."""
    began_at = time.perf_counter()
    shop.work(100_000)
    return int(100_000 * TASK_SECONDS / (time.perf_counter() - began_at))


if __name__ == "__main__":
    sys.exit(main())
