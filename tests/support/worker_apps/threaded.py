"""An app whose import leaves a thread running: a copy of its process would hold that thread's locks for ever."""

import os
import threading
import time

from stem import Stem
from support.worker_apps.plain import meet

_lock = threading.Lock()
_ready = threading.Event()


def _hold() -> None:
    with _lock:
        _ready.set()
        threading.Event().wait()


threading.Thread(target=_hold, name="holder", daemon=True).start()
_ready.wait()

app = Stem(retry=0.02)
app.task(name="meet")(meet)


@app.task(name="threads")
def threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate())


@app.task(name="exits")
def exits() -> None:
    os._exit(3)


@app.task(name="spins")
def spins() -> None:
    while True:
        pass


@app.task(name="sleeps")
def sleeps(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


@app.task(name="inline", isolate=False)
def inline() -> int:
    return os.getpid()
