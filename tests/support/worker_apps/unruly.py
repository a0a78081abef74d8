"""Tasks that do to their process what no task should."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from stem import Stem
from support.worker_apps.plain import leave_mark, meet

app = Stem(retry=0.02, max_retries=1)
app.task(name="meet")(meet)
app.task(name="echo")(lambda value=None: value)

ERRORS: dict[str, type[BaseException]] = {
    error.__name__: error
    for error in (MemoryError, SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, EOFError)
}


@app.task(name="raises")
def raises(kind: str) -> None:
    raise ERRORS[kind]("as asked")


@app.task(name="exits")
def exits(code: int) -> None:
    os._exit(code)


@app.task(name="signals-itself")
def signals_itself(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(30)


@app.task(name="segfaults")
def segfaults() -> None:
    ctypes.string_at(0)


@app.task(name="wants-memory")
def wants_memory() -> int:
    limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, limit[1]))
    try:
        return len(bytearray(1 << 32))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)


@app.task(name="closes-descriptors")
def closes_descriptors(first: int, seconds: float = 0.0) -> str:
    os.closerange(first, 1024)
    time.sleep(seconds)
    return "closed"


@app.task(name="takes-over-descriptors")
def takes_over_descriptors(directory: str) -> str:
    """What the isolate says afterwards lands in the task's own files."""
    os.closerange(3, 1024)
    for number in range(50):
        os.open(f"{directory}/taken-{number}", os.O_WRONLY | os.O_CREAT, 0o600)
    return "taken"


@app.task(name="speaks-out-of-turn")
def speaks_out_of_turn() -> str:
    """Garbage down every descriptor there is, the line to the supervisor among them."""
    for descriptor in range(3, 64):
        try:
            os.set_blocking(descriptor, False)
            os.write(descriptor, b"\x05\x00\x00\x00\xc1\xc1\xc1\xc1\xc1")
        except OSError:
            continue
    return "spoken"


@app.task(name="forks")
def forks(file: str) -> int:
    if os.fork() == 0:
        leave_mark(file, "child")
        return 1
    time.sleep(0.2)
    leave_mark(file, "parent")
    return 0


@app.task(name="forks-and-spins", hard_limit=0.5, max_retries=0)
def forks_and_spins() -> None:
    if os.fork() == 0:
        return
    while True:
        pass


@app.task(name="starts-threads")
def starts_threads(daemon: bool) -> int:
    for _ in range(3):
        threading.Thread(target=threading.Event().wait, daemon=daemon).start()
    return threading.active_count()


@app.task(name="exits-in-a-thread")
def exits_in_a_thread() -> str:
    thread = threading.Thread(target=sys.exit, args=(3,))
    thread.start()
    thread.join()
    return "left"


@app.task(name="prints")
def prints(lines: int, width: int) -> int:
    line = "x" * (width - 1)
    for _ in range(lines):
        print(line)
    return lines * width


@app.task(name="prints-without-end-of-line")
def prints_without_end_of_line(count: int) -> int:
    return sys.stdout.write("y" * count)


@app.task(name="subprocess-prints")
def subprocess_prints(count: int) -> int:
    return subprocess.run(["sh", "-c", f"yes subprocess | head -c {count}"], check=True).returncode


@app.task(name="leaves-a-talker", max_retries=0)
def leaves_a_talker(own_session: bool, exit_code: int | None) -> int:
    """A child that writes into our output as fast as it is read."""
    child = subprocess.Popen(["yes", "talk"], start_new_session=own_session)
    if exit_code is not None:
        os._exit(exit_code)
    return child.pid


@app.task(name="returns")
def returns(what: str) -> Any:
    return {
        "an object": object(),
        "much": "x" * 2_000_000,
        "circular": circular(),
        "no text": "\x00 \ud800",
        "nul": "\x00 \u2028",
        "no number": float("nan"),
    }[what]


def circular() -> list[Any]:
    itself: list[Any] = []
    itself.append(itself)
    return itself


@app.task(name="recurses")
def recurses(depth: int = 0) -> int:
    return recurses(depth + 1) + 1


@app.task(name="ignores-signals")
def ignores_signals() -> list[str]:
    ignored = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD, signal.SIGPIPE)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    return [signal.Signals(number).name for number in ignored]


@app.task(name="loses-its-directory")
def loses_its_directory(directory: str) -> str:
    Path(directory).mkdir()
    os.chdir(directory)
    Path(directory).rmdir()
    return "lost"


@app.task(name="replaces-its-streams")
def replaces_its_streams() -> str:
    sys.stdout = sys.stderr = None
    return "replaced"


@app.task(name="closes-its-streams")
def closes_its_streams() -> str:
    sys.stdout.close()
    sys.stderr.close()
    return "closed"


@app.task(name="closes-its-output")
def closes_its_output() -> str:
    sys.stdout.write("half a line")
    os.close(1)
    os.close(2)
    return "closed"
