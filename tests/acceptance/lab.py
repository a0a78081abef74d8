"""Where operators are tried out: a shell, real workers that it starts, and tasks that wait until they are let go."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from acceptance.serving import Serving
from acceptance.shell import Shell
from stem.core.lifecycle import EventKind
from support.until import until
from support.workers.processes import Desk, desk

APP = """
import asyncio
import logging
import os
import pathlib
import signal
import subprocess
import time

from stem import Stem, TaskContext, TaskRevoked

app = Stem(retry=0.05)
ballast = []


def begun(mark: str) -> None:
    "One line a run: what ran twice is there twice."
    with open("begun", "a") as file:
        file.write(f"{mark} {os.getpid()}\\n")


def has_leave(mark: str) -> bool:
    return os.path.exists(f"go-{mark}")


@app.task(name="quick")
def quick(mark: str = "quick") -> int:
    begun(mark)
    return os.getpid()


@app.task(name="mail", queue="mail")
def mail(mark: str = "mail") -> int:
    begun(mark)
    return os.getpid()


@app.task(name="nap")
def nap(seconds: float) -> None:
    time.sleep(seconds)


@app.task(name="hold")
def hold(mark: str = "hold") -> int:
    begun(mark)
    while not has_leave(mark):
        time.sleep(0.01)
    return os.getpid()


@app.task(name="hold-inline", isolate=False)
def hold_inline(ctx: TaskContext, mark: str = "inline") -> str:
    begun(mark)
    while not has_leave(mark):
        ctx.heartbeat()
        time.sleep(0.01)
    return mark


@app.task(name="hold-async")
async def hold_async(mark: str = "async") -> int:
    begun(mark)
    while not has_leave(mark):
        await asyncio.sleep(0.01)
    return os.getpid()


@app.task(name="tidy")
def tidy(ctx: TaskContext, mark: str = "tidy") -> str:
    "Notes which exception reached it at a checkpoint."
    begun(mark)
    try:
        while not has_leave(mark):
            ctx.progress(0.5)
            time.sleep(0.01)
    except TaskRevoked:
        pathlib.Path("tidied").write_text("TaskRevoked")
        raise
    return mark


@app.task(name="forty")
def forty(ctx: TaskContext, mark: str = "forty") -> None:
    "Reports 40 percent, and notes when."
    told = pathlib.Path(f"told-{ctx.id}.new")
    told.write_text(str(time.time()))
    told.rename(f"told-{ctx.id}")
    ctx.progress(0.4, "nearly half")
    time.sleep(1.5)


@app.task(name="talks")
def talks(mark: str = "talks") -> None:
    print("it begins")
    logging.getLogger("shop").warning("careful")
    begun(mark)
    while not has_leave(mark):
        time.sleep(0.01)
    print("it ends", end="")


@app.task(name="talks-and-fails", max_retries=1)
def talks_and_fails() -> None:
    print("from Python")
    subprocess.run(["echo", "from a child"])
    raise ValueError("boom")


@app.task(name="stubborn")
def stubborn(mark: str = "stubborn") -> None:
    "Hears nothing, and has a child."
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "600"])
    pathlib.Path("child").write_text(str(child.pid))
    begun(mark)
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass


@app.task(name="grow")
def grow(megabytes: int, mark: str = "grow") -> int:
    ballast.append(b"x" * (megabytes << 20))
    begun(mark)
    while not has_leave(mark):
        time.sleep(0.01)
    return os.getpid()
"""


class Lab:
    def __init__(self, shell: Shell, desk: Desk, serve: Callable[[Serving], Serving]) -> None:
        self.shell = shell
        self.desk = desk
        self._serve = serve

    def start(self, name: str = "w1", *words: str, shell: Shell | None = None, around: Sequence[str] = ()) -> Serving:
        """Up when this returns, and heard of."""
        worker = self.launch(name, *words, shell=shell, around=around)
        self.ready(worker, name)
        return worker

    def launch(self, name: str = "w1", *words: str, shell: Shell | None = None, around: Sequence[str] = ()) -> Serving:
        """Not awaited, so that several can start side by side."""
        return self._serve(Serving(shell or self.shell, "--name", name, *words, around=around))

    def ready(self, worker: Serving, name: str) -> None:
        def is_up() -> bool:
            assert worker.process.poll() is None, worker.log
            return name in self.pulses and "worker.started" in worker.log

        until(is_up, seconds=30, every=0.02)

    @property
    def pulses(self) -> dict[str, int]:
        """Process ids by worker."""
        return {p.heartbeat.worker_id: p.heartbeat.pid for p in self.desk.app.store.heartbeats.all()}

    def replies(self, *words: str, code: int = 0) -> dict[str, Any]:
        """What each worker said, as `--json` has it."""
        return {each["workerId"]: each for each in self.answers(*words, code=code)["replies"]}

    def answers(self, *words: str, code: int = 0) -> dict[str, Any]:
        done = self.shell.run("worker", *words, "--json")
        assert done.returncode == code, done
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def told(self, *words: str, worker: str = "w1") -> Any:
        """The payload of one worker's reply."""
        return self.replies(*words)[worker]["payload"]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.shell.run("worker", *words)

    def let_go(self, mark: str) -> None:
        (self.shell.directory / f"go-{mark}").touch()

    @property
    def runs(self) -> list[tuple[str, int]]:
        """Mark and process id of each run, in order."""
        file = self.shell.directory / "begun"
        whole, _, _ = file.read_text().rpartition("\n") if file.exists() else ("", "", "")
        return [(mark, int(pid)) for mark, pid in (line.split() for line in whole.splitlines())]

    def began(self, *marks: str) -> int:
        """Wait until all have; the process id of the last."""
        until(lambda: set(marks) <= {mark for mark, _ in self.runs}, seconds=20)
        return next(pid for mark, pid in reversed(self.runs) if mark == marks[-1])

    def times(self, mark: str) -> int:
        return [each for each, _ in self.runs].count(mark)

    def noted(self, kind: EventKind) -> list[dict[str, Any]]:
        """What workers have noted of themselves, some of it beside what they do."""
        return [event.data for event in self.desk.events() if event.kind is kind]


@contextmanager
def a_lab(shell: Shell, url: str, namespace: str) -> Iterator[Lab]:
    """All that was started in it is gone when it is left."""
    (shell.directory / "lab.py").write_text(APP)
    shell = shell.at(
        STEM_APP="lab:app",
        STEM_BROKER_URL=url,
        STEM_NAMESPACE=namespace,
        STEM_CONTROL_TIMEOUT="20s",  # a worker that is to answer does so sooner, unless the machine is busy
        PYTHONDONTWRITEBYTECODE="1",
    )
    with ExitStack() as stack:
        yield Lab(shell, stack.enter_context(desk(url, namespace)), stack.enter_context)


def is_alive(pid: int) -> bool:
    """Not one that is dead and unburied."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
