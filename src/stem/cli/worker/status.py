"""`stem worker status`: show workers by their last heartbeats in the store."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from stem.cli.support import completing, printing
from stem.cli.support.stores import Session, in_session
from stem.cli.worker.control_output import WorkerUnknown
from stem.core.text.escaping import plain_json

if TYPE_CHECKING:
    from stem.contracts.store import Store
    from stem.core.heartbeat import Pulse

# In intervals between heartbeats: one is missing, two are missing. After three the store forgets the worker.
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
@click.option(
    "--worker",
    "wanted",
    metavar="WORKER",
    multiple=True,
    help="Only this worker; may be repeated.",
    shell_complete=completing.workers,
)
@click.option("--follow", is_flag=True, help="Continue until Ctrl-C; with --json one line per heartbeat.")
@partial(in_session, namespace_help=_NAMESPACE)
def status(session: Session, wanted: tuple[str, ...], follow: bool) -> None:
    """Show workers and their state by their last heartbeats.

    A worker reports its state (ok, paused, draining, wedged) with each heartbeat, by default every ten seconds. It is late
    when one is missing, dead when two are, and no longer listed after three. Exit code 1 if a worker that you name is unknown.

    \b
    Example: stem worker status --worker alpha@web1 --follow
    """
    session, control_namespace = _resolve_namespace(session)
    with session.store() as store:
        view = WorkerView(store, wanted, control_namespace)
        reports = view.all_wanted()
        if follow:
            _follow(view, reports, as_json=session.as_json)
        elif session.as_json:
            printing.json({"workers": list(reports.values())})
        else:
            _print(reports.values())


def _resolve_namespace(session: Session) -> tuple[Session, str | None]:
    """Return where to look, and the control namespace to filter by. `--namespace` means the namespace in which workers
    listen, as for `stem worker ping`, or that of their tasks, whichever has workers."""
    if session.namespace is None:
        settings = session.settings()
        is_apart = settings.control_namespace != settings.namespace
        return session, settings.control_namespace if is_apart else None
    anywhere = replace(session, namespace=None)
    with anywhere.store() as store:
        if any(_listens_in(pulse, session.namespace) for pulse in store.heartbeats.all()):
            return anywhere, session.namespace
    return session, None


def _listens_in(pulse: "Pulse", name: str) -> bool:
    return bool(pulse.heartbeat.extras.get("controlNamespace", pulse.heartbeat.namespace) == name)


@dataclass(frozen=True, slots=True)
class WorkerView:
    """The workers to show: those named, or all."""

    store: "Store"
    wanted: Sequence[str]
    control_namespace: str | None

    def all_wanted(self) -> dict[str, Report]:
        """Raises WorkerUnknown."""
        found = self.now()
        unknown = [name for name in self.wanted if name not in found]
        if unknown:
            where = f"namespace {self.control_namespace or self.store.namespace}"
            raise WorkerUnknown(f"No worker {unknown[0]} is known in {where}; see which are with: stem worker status")
        return found

    def now(self) -> dict[str, Report]:
        return {
            pulse.heartbeat.worker_id: _report(pulse) for pulse in self.store.heartbeats.all() if self._shows(pulse)
        }

    def _shows(self, pulse: "Pulse") -> bool:
        is_named = not self.wanted or pulse.heartbeat.worker_id in self.wanted
        return is_named and (self.control_namespace is None or _listens_in(pulse, self.control_namespace))


def _report(pulse: "Pulse") -> Report:
    from stem.cli.support import json_forms

    return {**json_forms.worker(pulse), "state": _state(pulse)}


def _state(pulse: "Pulse") -> str:
    """Return the reported state while heartbeats arrive, else late or dead."""
    interval = pulse.heartbeat.extras.get("beatSeconds")
    if not isinstance(interval, int | float) or interval <= 0:
        interval = DEFAULT_BEAT_SECONDS
    beats = pulse.age_seconds / interval
    if beats <= LATE_BEATS:
        return str(pulse.heartbeat.extras.get("state", "ok"))
    return "late" if beats <= DEAD_BEATS else "dead"


def _follow(view: WorkerView, first: dict[str, Report], *, as_json: bool) -> None:
    """Redraw a screen; write a line per heartbeat and per change of state to a pipe or a file."""
    is_screen = sys.stdout.isatty() and not as_json
    before: dict[str, Report] = {}
    now = first
    while True:
        if is_screen:
            click.clear()
            _print(now.values())
        else:
            for report in _changes(before, now):
                click.echo(_line(report, as_json=as_json))
        time.sleep(LOOK_SECONDS)
        before, now = now, view.now()


def _changes(before: Mapping[str, Report], now: Mapping[str, Report]) -> Iterator[Report]:
    for worker, report in now.items():
        last = before.get(worker)
        if last is None or any(last[field] != report[field] for field in ("pid", "uptimeSeconds", "state")):
            yield report
    # It has stopped, or was silent for so long that the store has forgotten it.
    yield from ({**before[worker], "state": "gone"} for worker in before if worker not in now)


def _line(report: Report, *, as_json: bool) -> str:
    import msgspec

    if as_json:
        return plain_json(msgspec.json.encode(report).decode())
    return printing.plain("  ".join(f"{name}={value}" for name, value in zip(_COLUMNS, _row(report), strict=True)))


_COLUMNS = ("worker", "host", "pid", "state", "age", "running", "queues", "memory", "counters")


def _print(reports: Iterable[Report]) -> None:
    shrink = ("host", "queues", "counters")
    printing.table(_COLUMNS, map(_row, reports), empty="No worker is running.", shrink=shrink, states=("state",))


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
