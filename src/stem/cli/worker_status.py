"""`stem worker status`: what workers last said of themselves, from the heartbeats in the store."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from stem.cli import show
from stem.cli.control_telling import WorkerUnknown
from stem.cli.session import Session, in_session
from stem.core.escaping import plain_json

if TYPE_CHECKING:
    from stem.contracts.store import Store
    from stem.core.heartbeat import Pulse

# Counted in the worker's own beats: one is missing, two are. After three the store forgets it.
LATE_BEATS = 1.5
DEAD_BEATS = 2.5
DEFAULT_BEAT_SECONDS = 10.0
LOOK_SECONDS = 0.5

Report = dict[str, Any]

_NAMESPACE = (
    "Namespace that workers listen in, or of their tasks.  "
    "[env: STEM_CONTROL_NAMESPACE, STEM_WORKER_NAMESPACE, STEM_NAMESPACE]"
)


@click.command()
@click.option("--worker", "wanted", metavar="WORKER", multiple=True, help="Only this worker; may be repeated.")
@click.option("--follow", is_flag=True, help="Go on until Ctrl-C; with --json one line per heartbeat.")
@partial(in_session, namespace_help=_NAMESPACE)
def status(session: Session, wanted: tuple[str, ...], follow: bool) -> None:
    """Show the workers by their heartbeats, of which each sends one every ten seconds.

    A worker is what it says of itself (ok, paused, draining, wedged) while it beats, late when a beat is missing, dead when two
    are; after three it is not listed any more. Exit code 1 if a worker that you name is not known.

    \b
    Example: stem worker status --worker alpha@web1 --follow
    """
    session, listening_under = _sought(session)
    with session.store() as store:
        view = View(store, wanted, listening_under)
        reports = view.all_wanted()
        if follow:
            _follow(view, reports, as_json=session.as_json)
        elif session.as_json:
            show.json({"workers": list(reports.values())})
        else:
            _print(reports.values())


def _sought(session: Session) -> tuple[Session, str | None]:
    """`--namespace` is the name under which workers listen, as for `stem worker ping`, or the space of their tasks,
    whichever has workers: where to look, and whom to leave out."""
    if session.namespace is None:
        settings = session.settings()
        is_apart = settings.control_namespace != settings.namespace
        return session, settings.control_namespace if is_apart else None
    anywhere = replace(session, namespace=None)
    with anywhere.store() as store:
        if any(_listens_under(pulse, session.namespace) for pulse in store.heartbeats.all()):
            return anywhere, session.namespace
    return session, None


def _listens_under(pulse: "Pulse", name: str) -> bool:
    return bool(pulse.heartbeat.extras.get("controlNamespace", pulse.heartbeat.namespace) == name)


@dataclass(frozen=True, slots=True)
class View:
    """The workers that are asked for, all if none is named."""

    store: "Store"
    wanted: Sequence[str]
    listening_under: str | None

    def all_wanted(self) -> dict[str, Report]:
        """Raises WorkerUnknown."""
        found = self.now()
        unknown = [name for name in self.wanted if name not in found]
        if unknown:
            where = f"namespace {self.listening_under or self.store.namespace}"
            raise WorkerUnknown(f"No worker {unknown[0]} is known in {where}; see which are with: stem worker status")
        return found

    def now(self) -> dict[str, Report]:
        return {
            pulse.heartbeat.worker_id: _report(pulse) for pulse in self.store.heartbeats.all() if self._shows(pulse)
        }

    def _shows(self, pulse: "Pulse") -> bool:
        is_named = not self.wanted or pulse.heartbeat.worker_id in self.wanted
        return is_named and (self.listening_under is None or _listens_under(pulse, self.listening_under))


def _report(pulse: "Pulse") -> Report:
    from stem.cli import shapes

    return {**shapes.worker(pulse), "state": _state(pulse)}


def _state(pulse: "Pulse") -> str:
    """What it said holds until it should have spoken again."""
    told = pulse.heartbeat.extras.get("beatSeconds")
    beats = pulse.age_seconds / (told if isinstance(told, int | float) and told > 0 else DEFAULT_BEAT_SECONDS)
    if beats <= LATE_BEATS:
        return str(pulse.heartbeat.extras.get("state", "ok"))
    return "late" if beats <= DEAD_BEATS else "dead"


def _follow(view: View, first: dict[str, Report], *, as_json: bool) -> None:
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
        before, now = now, view.now()


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
        return plain_json(msgspec.json.encode(report).decode())
    return show.plain("  ".join(f"{name}={value}" for name, value in zip(_COLUMNS, _row(report), strict=True)))


_COLUMNS = ("worker", "host", "pid", "state", "age", "running", "queues", "memory", "counters")


def _print(reports: Iterable[Report]) -> None:
    shrink = ("host", "queues", "counters")
    show.table(_COLUMNS, map(_row, reports), empty="No worker is running.", shrink=shrink)


def _row(report: Report) -> tuple[object, ...]:
    return (
        report["workerId"],
        report["host"],
        report["pid"],
        report["state"],
        f"{report['ageSeconds']:.1f}s",
        f"{report['inFlight']}/{report['concurrency']}",
        ",".join(report["queues"]),
        f"{report['memoryBytes'] / 2**20:.0f}MiB",
        ",".join(f"{name}:{count}" for name, count in report["counters"].items() if count),
    )
