"""A backlog comes and goes: one worker grows from 2 isolates to at most 8, and shrinks back, drawn as it happens.

    python examples/autoscaling_demo/demo.py

Ends in how many expectations held; exit 0 only if all did.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from stem import Stem
from stem.control.caller import Caller

HERE = Path(__file__).parent
TASKS = 120
LEAST, MOST = 2, 8
PATIENCE_SECONDS = 120.0
ANSWER_SECONDS = 20.0  # on a machine that is busy with something else
HASTE = {
    "tick": "100ms",
    "scaleUpCoolDown": "300ms",
    "idleSeconds": "500ms",
    "scaleDownCoolDown": "200ms",
}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="stem-autoscaling-", ignore_cleanup_errors=True) as place:
        url = f"sqlite:///{place}/stem.db"
        worker = start(url, Path(place, "worker.log"))
        try:
            with Stem(url) as app:
                return play(app, worker)
        finally:
            worker.kill()
            worker.wait()


def start(url: str, log: Path) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-m", "stem", "worker", "start", "--app", "tasks:app", "--autoscale", f"{LEAST},{MOST}"]
    with log.open("wb") as file:
        return subprocess.Popen(  # noqa: S603
            [*words, "--name", "scaling"], cwd=HERE, env={**os.environ, "STEM_BROKER_URL": url}, stderr=file
        )


def play(app: Stem, worker: "subprocess.Popen[bytes]") -> int:
    caller = Caller(app.store)
    end = time.monotonic() + PATIENCE_SECONDS
    while not (answers := caller.ask("autoscale-config", HASTE, timeout_seconds=ANSWER_SECONDS)).replies:
        assert time.monotonic() < end and worker.poll() is None, "the worker did not start"
        time.sleep(0.05)
    assert answers.is_all_ok, "the worker did not answer"
    for picture in range(TASKS):
        app.enqueue("resize", {"picture": picture}, check=False)
    seen = watch(app, caller, end)
    while (told := stats(caller))["counters"].get("succeeded") != TASKS and time.monotonic() < end:
        time.sleep(0.1)  # the last of them may have run and not be written down yet
    return verdict(
        {
            f"it grew above {LEAST}": max(seen) > LEAST,
            f"and never above {MOST}": max(seen) <= MOST,
            f"it shrank back to {LEAST}, and never below": (seen[-1], min(seen)) == (LEAST, LEAST),
            "it is the same process all along": told["pid"] == worker.pid,
            f"all {TASKS} tasks succeeded": told["counters"].get("succeeded") == TASKS,
        }
    )


def watch(app: Stem, caller: Caller, end: float) -> list[int]:
    """How many isolates there were, until the backlog is gone and they are back at the least."""
    seen: list[int] = []
    while not seen or seen[-1] > LEAST or max(seen) == LEAST or waiting(app):
        if time.monotonic() > end:
            break
        now = int(stats(caller)["activeConcurrency"])
        if not seen or now != seen[-1]:
            print(f"{waiting(app):5} wait  {'#' * now} {now}")
        seen.append(now)
        time.sleep(0.1)
    return seen


def stats(caller: Caller) -> dict[str, Any]:
    return caller.ask("stats", workers=["scaling"], timeout_seconds=ANSWER_SECONDS).replies["scaling"].payload


def waiting(app: Stem) -> int:
    return app.store.broker.depth(["default"])["default"].ready


def verdict(expectations: dict[str, bool]) -> int:
    for what, has_held in expectations.items():
        print(f"{'held  ' if has_held else 'FAILED'}  {what}")
    print(f"{sum(expectations.values())} of {len(expectations)} expectations held.")
    return 0 if all(expectations.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
