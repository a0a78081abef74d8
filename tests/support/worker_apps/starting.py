"""Tasks that start processes of their own, each in another way, and say which."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from stem import Stem
from support.worker_apps.plain import leave_mark, meet

app = Stem(retry=0.02, max_retries=0)
app.task(name="meet")(meet)

DAEMON = "import os, sys; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); os.execvp('sleep', ['sleep', '600'])"

# Started when the app is imported, and used by all isolates: it belongs to none of them.
if "STEM_HELPER" in os.environ:
    helper = subprocess.Popen(["sleep", "600"])
    Path(os.environ["STEM_HELPER"]).write_text(str(helper.pid))

# The same as a daemon whose parent ends only when it is told: then the daemon is the fork server's.
if "STEM_DAEMON" in os.environ:
    told, ends = os.environ["STEM_DAEMON"], os.environ["STEM_DAEMON_PARENT_ENDS"]
    script = 'setsid sleep 600 & echo $! > "$0"; while [ ! -e "$1" ]; do sleep 0.05; done'
    subprocess.Popen(["sh", "-c", script, told, ends])
    while not (Path(told).exists() and Path(told).read_text()):
        time.sleep(0.01)


def start(way: str) -> list[int]:
    """The process ids of what now runs."""
    before = set(sleepers())
    match way:
        case "child":
            subprocess.Popen(["sleep", "600"])
        case "in a session of its own":
            subprocess.Popen(["sleep", "600"], start_new_session=True)
        case "behind a shell":
            subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 600 & sleep 600; true"])
        case "as a daemon":
            subprocess.run([sys.executable, "-c", DAEMON], check=True)
        case _:  # forked
            if os.fork() == 0:
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                os.execvp("sleep", ["sleep", "600"])
    count = 2 if way == "behind a shell" else 1
    while len(found := set(sleepers()) - before) < count:
        time.sleep(0.01)
    return sorted(found)


def sleepers() -> list[int]:
    """Every `sleep` below this process."""
    import psutil

    return [each.pid for each in psutil.Process().children(recursive=True) if each.name() == "sleep"]


@app.task(name="starts-and-waits")
def starts_and_waits(file: str, way: str) -> None:
    leave_mark(file, " ".join(map(str, start(way))))
    while True:
        time.sleep(600)


@app.task(name="starts-and-returns")
def starts_and_returns(way: str) -> list[int]:
    return start(way)


@app.task(name="waits-for-its-child")
def waits_for_its_child(file: str) -> None:
    child = subprocess.Popen(["sleep", "600"])
    leave_mark(file, str(child.pid))
    child.wait()


@app.task(name="starts-async")
async def starts_async(file: str) -> None:
    child = await asyncio.create_subprocess_exec("sleep", "600")
    leave_mark(file, str(child.pid))
    await child.wait()


@app.task(name="awaits-file")
async def awaits_file(mark: str, file: str) -> str:
    leave_mark(mark, "begun")
    while not Path(file).exists():
        await asyncio.sleep(0.01)
    return "there"


@app.task(name="starts-inline", isolate=False)
def starts_inline(file: str) -> None:
    leave_mark(file, " ".join(map(str, start("child"))))
    while True:
        time.sleep(0.01)


@app.task(name="pid")
def pid() -> int:
    return os.getpid()
