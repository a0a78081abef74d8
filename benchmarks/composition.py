"""What composition costs on each store: a chord against the same tasks without it, and how fast links of a chain follow.

python benchmarks/composition.py [--backend sqlite|redis|postgres] [--tasks N] [--links N] [--rounds N] [--strict]

One worker with two isolates; groups and chords by turns in one run. CPU a task is that of worker, isolates and server together.
"""

import argparse
import sys
from pathlib import Path
from statistics import median
from typing import NamedTuple

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE)]
import shop  # noqa: E402
from stem import chain, group  # noqa: E402
from support.until import until  # noqa: E402
from worker import BACKENDS, Place, Report, cpu_of, is_empty, place_of, span, worker  # noqa: E402

CHORD_BAR = 1.2
LINKS_BARS = {"sqlite": 300, "redis": 300}


def main() -> int:
    arguments = parse()
    held = True
    for backend in arguments.backend or BACKENDS:
        print(f"{backend}:", flush=True)
        report = Report()
        with place_of(backend) as place:
            measure(place, backend, report, arguments)
        held = held and all(is_held is not False for *_, is_held in report.rows)
    return 0 if held or not arguments.strict else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--tasks", type=int, default=10_000, help="members of the group and of the chord")
    parser.add_argument("--links", type=int, default=1_000, help="of the chain")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--strict", action="store_true", help="exit 1 when a bar is missed")
    return parser.parse_args()


def measure(place: Place, backend: str, report: Report, arguments: argparse.Namespace) -> None:
    bare, chords = [], []
    for _ in range(arguments.rounds):
        bare.append(plain(place, arguments.tasks))
        chords.append(chord(place, arguments.tasks))
    before = median(each.members for each in bare)
    drained, whole = median(each.members for each in chords) / before, median(each.whole for each in chords) / before
    cpu = median(each.cpu for each in chords) / median(each.cpu for each in bare)
    rounds = ", ".join(f"{b.members:.2f}/{c.members:.2f}" for b, c in zip(bare, chords, strict=True))
    report.add(
        f"chord of {arguments.tasks:,} over bare tasks",
        f"{whole:.2f} in time, {cpu:.2f} in CPU",
        f"<= {CHORD_BAR}",
        whole <= CHORD_BAR,
    )
    report.add("of that, until its last member", f"{drained:.2f} in time (s: {rounds})")
    rates = [links(place, arguments.links) for _ in range(3)]
    bar = LINKS_BARS.get(backend)
    report.add(
        f"chain of {arguments.links:,}",
        f"{max(rates):,.0f} links/s (rounds {', '.join(f'{rate:,.0f}' for rate in rates)})",
        "" if bar is None else f">= {bar}/s",
        None if bar is None else max(rates) >= bar,
    )


class Drained(NamedTuple):
    """Seconds from the first start to the last end, by the store's clock, of the members and of all; CPU seconds."""

    members: float
    whole: float
    cpu: float


def plain(place: Place, tasks: int) -> Drained:
    with place.fresh():
        shop.noop.enqueue_many({"n": number} for number in range(tasks))
        return _drained(place)


def chord(place: Place, tasks: int) -> Drained:
    with place.fresh():
        handle = (group(shop.noop.s(number) for number in range(tasks)) | shop.count.s()).submit()
        drained = _drained(place)
        assert handle.get(timeout=30) == tasks
        return drained


def links(place: Place, count: int) -> float:
    with place.fresh():
        handle = chain(shop.noop.s(0), *(shop.noop.s() for _ in range(count - 1))).submit()
        with worker():
            handle.wait(timeout=120)
        return count / span()


def _drained(place: Place) -> Drained:
    before = place.cpu()
    with worker() as tree:
        until(is_empty, seconds=120, every=0.05)
        cpu = place.cpu() - before + cpu_of(tree())
    return Drained(span("noop"), span(), cpu)


if __name__ == "__main__":
    sys.exit(main())
