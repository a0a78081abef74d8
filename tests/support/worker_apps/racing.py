"""Tasks that end at about the moment at which they are ended, and others beside them that nobody means."""

import time
from contextlib import suppress

from stem import Stem
from support.worker_apps.plain import leave_mark

app = Stem(retry=0.02)


@app.task(name="bystander")
def bystander(file: str, text: str) -> str:
    leave_mark(file, text)
    time.sleep(0.002)
    return text


@app.task(name="willing")
def willing(seconds: float) -> None:
    time.sleep(seconds)


@app.task(name="deaf")
def deaf(seconds: float) -> None:
    """Goes on whatever it is told, until its time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(BaseException):
            time.sleep(0.001)
