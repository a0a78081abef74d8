"""Tasks that write down in one shared file when they begin and when they end, so that a test can count runs."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from stem import Drop, Stem

app = Stem()
_file = os.open(os.environ["STEM_LEDGER"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def write(what: str, mark: str) -> None:
    """One line at once: many processes write here, and some are killed."""
    os.write(_file, f"{what} {mark} {time.time():.6f} {os.getpid()} {os.getppid()}\n".encode())


@app.task(name="note")
def note(mark: str) -> str:
    write("begin", mark)
    return mark


@app.task(name="nap")
def nap(mark: str, seconds: float) -> str:
    write("begin", mark)
    time.sleep(seconds)
    write("end", mark)
    return mark


@app.task(name="doze")
async def doze(mark: str, seconds: float) -> str:
    write("begin", mark)
    await asyncio.sleep(seconds)
    write("end", mark)
    return mark


@app.task(name="until-there")
def until_there(mark: str, file: str) -> str:
    """Runs until the file exists."""
    write("begin", mark)
    while not Path(file).exists():
        time.sleep(0.01)
    write("end", mark)
    return mark


@app.task(name="fall")
def fall(mark: str) -> None:
    write("begin", mark)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="gorge")
def gorge(mark: str) -> None:
    """Takes memory until somebody ends it."""
    write("begin", mark)
    taken = []
    while True:
        taken.append(b"x" * (1 << 24))


@app.task(name="recurse")
def recurse(mark: str) -> None:
    """Into itself, until somebody ends it."""
    write("begin", mark)
    sys.setrecursionlimit(2**31 - 1)
    deeper([])


def deeper(kept: object) -> object:
    return deeper([kept, bytearray(100_000)])


@app.task(name="rated", rate_limit="5/s")
def rated(mark: str) -> str:
    write("begin", mark)
    return mark


@app.task(name="by-tenant", rate_limit="2/s", rate_burst=1, rate_per="tenant")
def by_tenant(mark: str) -> str:
    write("begin", mark)
    return mark


@app.task(name="placed", max_concurrency=3)
def placed(mark: str, seconds: float) -> str:
    write("begin", mark)
    time.sleep(seconds)
    write("end", mark)
    return mark


@app.task(name="once", at_most_once=True)
def once(mark: str, file: str) -> str:
    """Runs until the file exists."""
    return until_there(mark, file)


@app.task(name="fall-once", at_most_once=True)
def fall_once(mark: str) -> None:
    fall(mark)


@app.task(name="ignored", ignore_result=True)
def ignored(mark: str) -> object:
    """What it returns has no JSON form, and need not have."""
    write("begin", mark)
    return object()


@app.task(name="dropped")
def dropped(mark: str) -> None:
    write("begin", mark)
    raise Drop("the customer is gone")
