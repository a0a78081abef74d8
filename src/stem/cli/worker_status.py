"""`stem worker status`: what workers last said of themselves, from the heartbeats in the store."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from stem.cli import show
from stem.cli.session import Session, in_session
from stem.core.errors import StemError

if TYPE_CHECKING:
    from stem.contracts.store import Store

BEAT_SECONDS = 10.0
LATE_SECONDS = 1.5 * BEAT_SECONDS  # a beat is missing
DEAD_SECONDS = 2.5 * BEAT_SECONDS  # two are; after three the store forgets it
LOOK_SECONDS = 0.5

Report = dict[str, Any]


class WorkerUnknown(StemError):
    """No heartbeat of that worker is in the store: it has stopped, died a while ago, or beats elsewhere."""

    exit_code = 1


@click.command()
@click.option("--worker", "wanted", metavar="WORKER", multiple=True, help="Only this one; may be given again.")
@click.option("--follow", is_flag=True, help="Go on until Ctrl-C; with --json one line a heartbeat.")
@in_session
def status(session: Session, wanted: tuple[str, ...], follow: bool) -> None:
    """Show the workers by their heartbeats, of which each sends one every ten seconds.

    A worker is ok, late (a heartbeat is missing) or dead (two are); after 30 s without one it is not listed any more. Exit
    code 1 if a worker that you name is not known.

    \b
    Example: stem worker status --worker alpha@web1 --follow
    """
    with session.store() as store:
        reports = _reports(store, wanted)
        if follow:
            _follow(store, wanted, reports, as_json=session.as_json)
        elif session.as_json:
            show.json({"workers": list(reports.values())})
        else:
            _print(reports.values())


def state_of(age_seconds: float) -> str:
    if age_seconds <= LATE_SECONDS:
        return "ok"
    return "late" if age_seconds <= DEAD_SECONDS else "dead"


def _reports(store: "Store", wanted: Sequence[str]) -> dict[str, Report]:
    """Raises WorkerUnknown."""
    found = _heard(store, wanted)
    unknown = [name for name in wanted if name not in found]
    if unknown:
        where = f"namespace {store.namespace}"
        raise WorkerUnknown(f"No worker {unknown[0]} is known in {where}; see which are with: stem worker status")
    return found


def _heard(store: "Store", wanted: Sequence[str]) -> dict[str, Report]:
    from stem.cli import shapes

    workers = [{**shapes.worker(pulse), "state": state_of(pulse.age_seconds)} for pulse in store.heartbeats.all()]
    return {each["workerId"]: each for each in workers if not wanted or each["workerId"] in wanted}


def _follow(store: "Store", wanted: Sequence[str], first: dict[str, Report], *, as_json: bool) -> None:
    """A screen is drawn anew; a pipe or a file gets a line for each heartbeat, and for each change of state."""
    is_screen = sys.stdout.isatty() and not as_json
    before: dict[str, Report] = {}
    now = first
    while True:
        if is_screen:
            click.clear()
            _print(now.values())
        else:
            for report in _news(before, now):
                click.echo(_line(report, as_json=as_json))
        time.sleep(LOOK_SECONDS)
        before, now = now, _heard(store, wanted)


def _news(before: Mapping[str, Report], now: Mapping[str, Report]) -> Iterator[Report]:
    for worker, report in now.items():
        last = before.get(worker)
        if last is None or any(last[field] != report[field] for field in ("pid", "uptimeSeconds", "state")):
            yield report
    # It said goodbye, or was silent for so long that the store has forgotten it.
    yield from ({**before[worker], "state": "gone"} for worker in before if worker not in now)


def _line(report: Report, *, as_json: bool) -> str:
    import msgspec

    if as_json:
        return msgspec.json.encode(report).decode()
    return show.plain("  ".join(f"{name}={value}" for name, value in zip(_COLUMNS, _row(report), strict=True)))


_COLUMNS = ("worker", "host", "pid", "state", "age", "running", "of", "queues", "memory", "counters")


def _print(reports: Iterable[Report]) -> None:
    show.table(_COLUMNS, map(_row, reports), empty="No worker is alive.")


def _row(report: Report) -> tuple[object, ...]:
    return (
        report["workerId"],
        report["host"],
        report["pid"],
        report["state"],
        f"{report['ageSeconds']:.1f}s",
        report["inFlight"],
        report["concurrency"],
        ",".join(report["queues"]),
        f"{report['memoryBytes'] / 2**20:.0f}MiB",
        ",".join(f"{name}:{count}" for name, count in report["counters"].items() if count),
    )
