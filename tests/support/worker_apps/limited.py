"""Tasks that run past their limits, each in a way of its own."""

import ctypes
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from stem import SoftTimeLimitExceeded, Stem
from support.worker_apps.plain import leave_mark, mark, meet

# The app's own limit is one that no other test comes near, except for those tasks that have no other.
app = Stem(retry=0.02, hard_limit=1.5)
app.task(name="meet")(meet)
app.task(name="mark")(mark)


@app.task(name="spins")
def spins(file: str) -> None:
    leave_mark(file, "begun")
    while True:
        pass


@app.task(name="spins-briefly", hard_limit=0.3)
def spins_briefly(file: str) -> None:
    leave_mark(file, "begun")
    while True:
        pass


@app.task(name="keeps-the-lock")
def keeps_the_lock(file: str) -> None:
    """A C call that does not let go of the interpreter."""
    leave_mark(file, "begun")
    ctypes.PyDLL(None).sleep(3600)


@app.task(name="sums")
def sums(file: str) -> int:
    leave_mark(file, "begun")
    return sum(range(10**12))


@app.task(name="matches")
def matches(file: str) -> bool:
    leave_mark(file, "begun")
    return re.fullmatch(r"(a+)+b", "a" * 60) is not None


@app.task(name="waits-for-a-child")
def waits_for_a_child(file: str) -> None:
    child = subprocess.Popen(["sleep", "3600"])
    leave_mark(file, str(child.pid))
    child.wait()


@app.task(name="defies")
def defies(file: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    leave_mark(file, "begun")
    while True:
        try:
            while True:
                time.sleep(0.01)
        except BaseException:  # noqa: BLE001 - that is its defiance
            continue


@app.task(name="gives-what-it-has", soft_limit=0.3)
def gives_what_it_has() -> dict[str, Any]:
    began_at, count = time.monotonic(), 0
    try:
        while True:
            count += 1
    except SoftTimeLimitExceeded as limit:
        return {"count": count, "seconds": time.monotonic() - began_at, "told": str(limit)}


@app.task(name="sleeps")
def sleeps(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


@app.task(name="cleans-up", soft_limit=0.2)
def cleans_up(file: str, seconds: float) -> None:
    """Told once; its cleaning is not cut short by being told again."""
    try:
        time.sleep(30)
    finally:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.01)
        leave_mark(file, "clean")


@app.task(name="pid")
def pid() -> int:
    return os.getpid()


@app.task(name="waits-for")
def waits_for(file: str) -> str:
    while not Path(file).exists():
        time.sleep(0.01)
    return "seen"
