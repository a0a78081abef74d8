"""A few real workers on one real store, and the ledger in which their tasks write down that they ran."""

import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import psutil

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.delivery import Depth
from stem.core.envelope import Push
from stem.core.heartbeat import Heartbeat
from stem.core.lifecycle import TERMINAL
from stem.core.record import TaskRecord
from stem.core.settings.app import Settings
from support.builders import a_push
from support.until import until
from support.workers.processes import WorkerProcess

APP = "support.worker_apps.ledger:app"


class Entry(NamedTuple):
    """One line of the ledger: `begin` or `end` of the run of `mark`, when, in which isolate, under which fork server."""

    what: str
    mark: str
    at: float
    pid: int
    server: int


class Ledger:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.touch()

    def entries(self, what: str | None = None) -> list[Entry]:
        whole, _, _ = self.path.read_text().rpartition("\n")  # of the last line a part may not be there yet
        lines = [line.split() for line in whole.splitlines()]
        found = [Entry(kind, mark, float(at), int(pid), int(server)) for kind, mark, at, pid, server in lines]
        return [entry for entry in found if what in (None, entry.what)]

    def runs(self) -> Counter[str]:
        """How often each mark began."""
        return Counter(entry.mark for entry in self.entries("begin"))

    def begun(self, mark: str, *, seconds: float = 20.0) -> Entry:
        """Wait until it has begun."""
        return until(lambda: next((e for e in self.entries("begin") if e.mark == mark), None), seconds=seconds)


class FleetWorker(WorkerProcess):
    """One of several: it has a name, and its parts can be told apart."""

    def __init__(
        self, name: str, url: str, namespace: str, app_path: str, log: Path, options: Any, variables: Any
    ) -> None:
        super().__init__(url, namespace, app_path, log, {"name": name, **options}, variables)
        self.name = name

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def reaper(self) -> psutil.Process:
        (reaper,) = psutil.Process(self.pid).children()
        return reaper

    @property
    def server(self) -> psutil.Process:
        (server,) = self.reaper.children()
        return server

    @property
    def isolates(self) -> list[psutil.Process]:
        return self.server.children()

    def tree(self) -> list[psutil.Process]:
        """The supervisor first."""
        return [psutil.Process(self.pid), *self.descendants()]

    def send_all(self, number: int) -> None:
        for process in self.tree():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        if number == signal.SIGSTOP:
            until(lambda: psutil.Process(self.pid).status() == psutil.STATUS_STOPPED)


class Fleet:
    """Ends all its workers, whatever state they are in, when the test is over."""

    def __init__(self, url: str, namespace: str, place: Path) -> None:
        self._url = url
        self._namespace = namespace
        self._place = place
        self._numbers = count(1)
        self.ledger = Ledger(place / "ledger")
        self.store: Store = connect(url, Settings(namespace=namespace))
        self.workers: list[FleetWorker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.clean_up()
            print(f"--- {worker.name}\n{worker.text}")
        self.store.upkeep.close()

    def start(
        self,
        *,
        app_path: str = APP,
        variables: Mapping[str, str] | None = None,
        url: str | None = None,
        is_awaited: bool = True,
        **options: Any,
    ) -> FleetWorker:
        """Up when this returns, and heard of, unless it is not to be awaited. `options` are the Worker's."""
        number = next(self._numbers)
        name = options.pop("name", f"w{number}")
        log = self._place / f"worker-{number}.log"
        known = {"STEM_LEDGER": str(self.ledger.path), **(variables or {})}
        worker = FleetWorker(
            name, url or self._url, self._namespace, app_path, log, {"concurrency": 2, **options}, known
        )
        self.workers.append(worker)
        if is_awaited:
            self.ready(worker)
        return worker

    def ready(self, *workers: FleetWorker) -> None:
        for worker in workers:
            worker.wait_until_up()
        until(lambda: {worker.name for worker in workers} <= set(self.pulses()), seconds=20, every=0.02)

    def pulses(self) -> dict[str, Heartbeat]:
        """What the workers last said, by name."""
        return {pulse.heartbeat.worker_id: pulse.heartbeat for pulse in self.store.heartbeats.all()}

    def push(self, name: str, *marks: str, options: Mapping[str, Any] | None = None, **args: Any) -> list[str]:
        """One task a mark, which is its id, too."""
        return self.push_all(
            [a_push(mark, name=name, args={"mark": mark, **args}, **(options or {})) for mark in marks]
        )

    def push_all(self, pushes: list[Push]) -> list[str]:
        return [receipt.id for receipt in self.store.broker.push(pushes)]

    def record(self, id: str) -> TaskRecord:
        return self.store.results.get([id])[id]

    def ended(self, ids: list[str], *, seconds: float = 30.0) -> dict[str, TaskRecord]:
        """Their records once all have ended."""
        missing = set(ids)

        def all_ended() -> bool:
            records = self.store.results.get(list(missing))
            missing.difference_update(id for id, record in records.items() if record.state in TERMINAL)
            return not missing

        try:
            until(all_ended, seconds=seconds, every=0.02)
        except AssertionError:
            raise AssertionError(f"not ended within {seconds} s: {self._states(missing)}") from None
        return self.store.results.get(ids)

    def depth(self, queue: str = "default") -> Depth:
        return self.store.broker.depth([queue])[queue]

    def _states(self, ids: set[str]) -> dict[str, str]:
        return {id: record.state for id, record in self.store.results.get(sorted(ids)[:20]).items()}


def a_fleet(url: str, namespace: str, place: Path) -> Iterator[Fleet]:
    """For a fixture."""
    with Fleet(url, namespace, place) as fleet:
        yield fleet
