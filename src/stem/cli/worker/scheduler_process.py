"""Run `stem beat` beside a worker, in a child process that ends with it."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

log = logging.getLogger("stem.worker")

STOP_SECONDS = 10.0
# The kernel kills it if the worker is killed. `-c` because that has to be arranged in the child itself.
_CODE = (
    "import sys; from stem.runtime.process import die_with; die_with(int(sys.argv[1])); "
    "from stem.cli.main import main; main(sys.argv[2:])"
)


@contextmanager
def scheduler_process(app_path: str, log_level: str) -> Iterator[None]:
    """Run the scheduler of the app until the block ends. Raises ConfigError if the configuration file has a wrong schedule."""
    from stem.client.schedules.file import read_schedules
    from stem.runtime.configfile import find

    if (file := find(os.environ)) is not None:
        read_schedules(file)
    words = ["beat", "--app", app_path, "--log-level", log_level]
    process = subprocess.Popen([sys.executable, "-c", _CODE, str(os.getpid()), *words])  # noqa: S603 - our own words
    is_stopping = Event()
    Thread(target=_watch, args=(process, is_stopping), name="beat-watch", daemon=True).start()
    try:
        yield
    finally:
        is_stopping.set()
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _watch(process: "subprocess.Popen[bytes]", is_stopping: Event) -> None:
    """Log if it ends by itself: the worker goes on, and other schedulers may run."""
    code = process.wait()
    if not is_stopping.is_set():
        log.error("beat.exited code=%d: nothing is scheduled by this worker any more; its log says why", code)
