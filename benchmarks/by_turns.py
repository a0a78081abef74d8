"""Two versions of Stem by turns: drain, latency and idle memory of this checkout against another one.

The other is a working tree of the same repository with an environment of its own: `git worktree add /tmp/before REVISION`,
then `make .venv/dev` there. Each has a server of its own for the whole run, and they take turns, so that a slow moment of the
machine meets both. The median of the rounds counts. Other work on the machine moves CPU per task least.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
BACKENDS = ("sqlite", "redis", "postgres")
UNITS = {
    "drain": (("tasks/s", "{:,.0f}"), ("µs CPU per task", "{:.1f}")),
    "latency": (("ms p50", "{:.2f}"), ("ms p99", "{:.1f}")),
    "idle": (("MB", "{:.1f}"), ("of a core", "{:.3%}")),
}
Figures = tuple[float, float]


def main() -> int:
    arguments = parse()
    if arguments.serve:
        serve(Path(arguments.other), arguments.serve, arguments.what, arguments.size)
        return 0
    for backend in arguments.backend or BACKENDS:
        compare(backend, arguments)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", help="the other checkout")
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--what", choices=UNITS, default="drain")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--size", type=float, help="tasks of a drain (20,000), seconds of a latency or idle round (3)")
    parser.add_argument("--serve", choices=BACKENDS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.size = arguments.size or (20_000 if arguments.what == "drain" else 3)
    return arguments


def compare(backend: str, arguments: argparse.Namespace) -> None:
    """Print the medians of both, and the ratio of the medians."""
    found: dict[str, list[Figures]] = {"other": [], "this": []}
    with ExitStack() as stack:
        trees = {"other": Path(arguments.other).resolve(), "this": HERE.parent}
        measure = {name: stack.enter_context(version(tree, backend, arguments)) for name, tree in trees.items()}
        for number in range(arguments.rounds + 1):
            for name in ("other", "this") if number % 2 else ("this", "other"):
                figures = measure[name]()
                found[name] += [figures] if number else []  # the first round warms files and servers up
    for index, (unit, form) in enumerate(UNITS[arguments.what]):
        other, this = ([figures[index] for figures in found[name]] for name in ("other", "this"))
        ranges = f"({spread(other, form)} → {spread(this, form)})"
        print(
            f"{backend:<9} {arguments.what:<8} {form.format(median(other))} → {form.format(median(this))} {unit},"
            f" {median(this) / (median(other) or 1e-9):.3f} {ranges}",
            flush=True,
        )


def spread(values: list[float], form: str) -> str:
    return f"{form.format(min(values))}…{form.format(max(values))}"


@contextmanager
def version(tree: Path, backend: str, arguments: argparse.Namespace) -> Iterator[Callable[[], Figures]]:
    """A process of that checkout, which measures one round whenever it is asked."""
    command = [str(tree / ".venv/bin/python"), __file__, str(tree), "--serve", backend, "--what", arguments.what]
    process = subprocess.Popen(
        [*command, "--size", str(arguments.size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def measure() -> Figures:
        stdin.write("\n")
        stdin.flush()
        first, second = json.loads(stdout.readline() or sys.exit(f"the process in {tree} has ended"))
        return first, second

    try:
        yield measure
    finally:
        stdin.close()
        process.wait(60)


def serve(tree: Path, backend: str, what: str, size: float) -> None:
    """Measure with the checkout's own benchmark, one round per line of standard input."""
    sys.path[:0] = [str(tree / "benchmarks")]
    import worker  # of that checkout

    kinds: dict[str, Callable[[Any], Figures]] = {
        "drain": lambda place: worker.drain(place, int(size)),
        "latency": lambda place: worker.latency(place, size),
        "idle": lambda place: worker.idle(place, size),
    }
    with worker.place_of(backend) as place:
        for _ in sys.stdin:
            print(json.dumps(kinds[what](place)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
