"""Tasks that behave: they say who and where they are, and leave a mark for each time they ran."""

import os
import time
from pathlib import Path

from stem import Stem, TaskContext

app = Stem(retry=0.05)


@app.task(name="echo")
def echo(value: object = None) -> object:
    return value


@app.task(name="pid")
def pid() -> int:
    return os.getpid()


@app.task(name="mark")
def mark(file: str, text: str = "", seconds: float = 0.0) -> str:
    """One line a run, written whole: what ran twice is there twice."""
    leave_mark(file, text)
    time.sleep(seconds)
    return text


@app.task(name="hold")
def hold(file: str, until: str, text: str = "") -> int:
    """Marks that it runs, then runs on until the file `until` exists."""
    leave_mark(file, text)
    while not Path(until).exists():
        time.sleep(0.01)
    return os.getpid()


@app.task(name="meet")
def meet(directory: str, count: int, seconds: float = 20.0) -> int:
    """Ends when `count` processes are in it at the same time: all of a worker's isolates, say."""
    (Path(directory) / str(os.getpid())).touch()
    end = time.monotonic() + seconds
    while len(list(Path(directory).iterdir())) < count:
        if time.monotonic() > end:
            raise TimeoutError(f"{len(list(Path(directory).iterdir()))} of {count} came")
        time.sleep(0.005)
    return os.getpid()


@app.task(name="fail", max_retries=2)
def fail(ctx: TaskContext, file: str) -> None:
    leave_mark(file, str(ctx.attempt))
    raise ValueError("as asked")


def leave_mark(file: str, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{text}\n".encode())
    finally:
        os.close(descriptor)
