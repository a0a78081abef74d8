"""Tasks to be run over DataFrames. Executors import `app`; a test fills an app on a store of its own."""

import os
import time
from pathlib import Path

from stem import SoftTimeLimitExceeded, Stem, current_task

PATH = "support.worker_apps.bulk:app"


def fill(app: Stem) -> Stem:
    @app.task(name="double", max_retries=0)
    def double(n: int) -> int:
        return 2 * n

    @app.task(name="fussy", max_retries=2, retry=0.01, queue="fussy")
    def fussy(n: int, mended: str, word: str = "usual") -> str:
        """Every tenth fails, until the file is there; one fells its process."""
        if n % 10 == 3 and not Path(mended).exists():
            raise ValueError(f"{n} does not please")
        if n == 27 and not Path(mended).exists():
            os._exit(9)
        return f"{word} {n}"

    @app.task(name="shaky", max_retries=3, retry=0.01)
    def shaky(n: int) -> int:
        """At the third attempt it works."""
        attempt = current_task().attempt
        if attempt < 2:
            raise OSError("not yet")
        return attempt

    @app.task(name="endless", max_retries=1, retry=0.01, hard_limit=0.4)
    def endless(n: int) -> int:
        while n == 5:
            time.sleep(0.01)
        return n

    @app.task(name="patient", max_retries=0, soft_limit=1.0)
    def patient(n: int) -> str:
        try:
            while n == 5:
                time.sleep(0.01)
        except SoftTimeLimitExceeded:
            return "cut short"
        return "done"

    @app.task(name="marks", max_retries=0)
    def marks(n: int, book: str, seconds: float = 0.0) -> str:
        """Leaves a line for every run."""
        with Path(book).open("a") as file:
            file.write(f"{n}\n")
        time.sleep(seconds)
        return current_task().id

    @app.task(name="guarded", rate_limit="5/s")
    def guarded(n: int) -> int:
        return n

    return app


app = fill(Stem())
app.bulk("marks").task(max_retries=0)
