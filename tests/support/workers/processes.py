"""Real workers for tests: in a process of their own, or beside the test; whatever happens, nothing of them is left."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from stem import Stem
from stem.core.delivery import DeadLetter
from stem.core.event import Event
from stem.core.record import TaskRecord
from stem.runtime.log import LogWriter
from stem.worker.supervisor import Worker
from support.until import until

TESTS = Path(__file__).parents[2]
UP_SECONDS = 30.0


class WorkerProcess:
    """`python -m support.workers.processes`: a worker as a service manager would run it, its log in a file."""

    def __init__(
        self,
        url: str,
        namespace: str,
        app_path: str,
        log: Path,
        options: Mapping[str, Any],
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        self._family: list[psutil.Process] = []
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "support.workers.processes", app_path, json.dumps(options)],
                env={**environment(url, namespace), **(variables or {})},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def text(self) -> str:
        """What it has logged."""
        return self.log.read_text(errors="replace")

    def descendants(self) -> list[psutil.Process]:
        """The fork server, its isolates and what those started."""
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.pid).children(recursive=True)
        return []

    def wait_until_up(self) -> None:
        def is_up() -> bool:
            assert self.process.poll() is None, self.text
            return "worker.started" in self.text

        until(is_up, seconds=UP_SECONDS)

    def send(self, number: int) -> None:
        """One that is to be frozen is when this returns: until its first thread gets round to it, the others go on."""
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            until(lambda: psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED)

    def stop(self, number: int = signal.SIGTERM, *, seconds: float = 20.0) -> int:
        """Ask it to end by a signal; its exit code."""
        self._family = self.descendants()
        self.send(number)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """As a machine that loses power, seen from the store: the supervisor first, without a word."""
        self._family = self.descendants()
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(10)

    def clean_up(self) -> None:
        """For the end of a test: all of it is gone when this returns."""
        family = {*self._family, *self.descendants()}
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGCONT)
        self.kill()
        for process in family | set(self._family):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        until(lambda: are_gone(family))


def are_gone(processes: Iterable[psutil.Process]) -> bool:
    """Also true of those that are dead and unburied: whose parent died before them is buried by the system, some time."""
    return not any(map(_is_there, processes))


def _is_there(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):  # it may go between one question and the next
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@contextmanager
def worker_process(
    url: str, namespace: str, app_path: str, directory: Path, *, is_awaited: bool = True, **options: Any
) -> Iterator[WorkerProcess]:
    """A worker in a process of its own, up when this is entered; `options` are the Worker's."""
    worker = WorkerProcess(url, namespace, app_path, directory / f"worker-{os.urandom(4).hex()}.log", options)
    try:
        if is_awaited:
            worker.wait_until_up()
        yield worker
    finally:
        worker.clean_up()


@contextmanager
def worker_here(url: str, namespace: str, app_path: str, **options: Any) -> Iterator[Worker]:
    """A Worker object in this process; its isolates are real. Stopped hard at the end, unless the test has closed it."""
    changes = environment(url, namespace, base={})
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    worker = Worker(path=app_path, **options)
    try:
        worker.start()
        yield worker
    finally:
        worker.close("hard")
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def environment(url: str, namespace: str, *, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What an app of `support.worker_apps` needs to find its store, and be found."""
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    return {**base, "STEM_BROKER_URL": url, "STEM_NAMESPACE": namespace, "PYTHONPATH": path}


class Desk:
    """The client's side of a test: sends tasks by name, and asks what became of them."""

    def __init__(self, url: str, namespace: str) -> None:
        self.app = Stem(url, namespace=namespace, max_retries=1)

    def send(self, name: str, /, options: Mapping[str, Any] | None = None, **args: Any) -> str:
        """The id."""
        return self.app.enqueue(name, args, check=False, **(options or {})).id

    def ended(self, task_id: str, *, seconds: float = 20.0) -> TaskRecord:
        """Its record once it has ended, however."""
        return self.app.handle(task_id).wait(seconds)

    def value(self, task_id: str, *, seconds: float = 20.0) -> Any:
        """What it returned; raises TaskFailed if it did not."""
        return self.app.handle(task_id).get(seconds)

    def call(self, name: str, /, **args: Any) -> Any:
        return self.value(self.send(name, **args))

    def meet(self, place: Path, count: int, *, seconds: float = 10.0) -> None:
        """A task in each of the `count` isolates, all at the same time, answers within the time."""
        room = Path(tempfile.mkdtemp(dir=place))
        end = time.monotonic() + seconds
        ids = [self.send("meet", directory=str(room), count=count) for _ in range(count)]
        assert len({self.value(each, seconds=end - time.monotonic()) for each in ids}) == count

    def record(self, task_id: str) -> TaskRecord:
        return self.app.handle(task_id).status()

    def letter(self, task_id: str) -> DeadLetter:
        """Its dead letter, which it has."""
        found = self.app.store.deadletters.get(task_id)
        assert found is not None, f"{task_id} is no dead letter: {self.record(task_id)}"
        return found

    def events(self, task_id: str | None = None) -> list[Event]:
        """Oldest first."""
        found: list[Event] = []
        while page := self.app.store.events.read(found[-1].offset if found else None, limit=1000):
            found += page
        return [event for event in found if task_id in (None, event.task_id)]

    def kinds(self, task_id: str) -> list[str]:
        return [str(event.kind) for event in self.events(task_id)]


@contextmanager
def desk(url: str, namespace: str) -> Iterator[Desk]:
    opened = Desk(url, namespace)
    try:
        yield opened
    finally:
        opened.app.close()


def main() -> int:
    import logging

    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(task_id)s %(message)s", force=True)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_with_task_id)
    path, options = sys.argv[1], json.loads(sys.argv[2])
    worker = Worker(path=path, **options | {"queues": tuple(options.get("queues", ()))})
    if os.environ.get("STEM_TEST_LOG") != "json":
        return worker.run()
    logging.getLogger().handlers.clear()
    with LogWriter("info", "json"):
        return worker.run()


def _with_task_id(record: Any) -> bool:
    record.task_id = getattr(record, "task_id", "-")
    return True


if __name__ == "__main__":
    sys.exit(main())
