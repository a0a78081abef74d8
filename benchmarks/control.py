"""What steering costs on each store, with three real workers: a ping, the command that makes it, and many revokes.

Revokes count from the call until they are stored and all three workers have said what they did with each.
"""

import argparse
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE)]
import shop  # noqa: E402
from stem.control.caller import Caller  # noqa: E402
from stem.control.revoking import revoke  # noqa: E402
from stem.core.revoke import RevokeRequest  # noqa: E402
from support.until import until  # noqa: E402
from worker import BACKENDS, Place, Report, place_of, worker  # noqa: E402

WORKERS, PINGS, REVOKES = 3, 15, 10_000
PING_CPU_SECONDS, REVOKES_SECONDS = 0.4, 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--rounds", type=int, default=3, help="of the revokes; the best counts")
    arguments = parser.parse_args()
    for backend in arguments.backend or BACKENDS:
        print(f"{backend}:", flush=True)
        with place_of(backend) as place:
            measure(place, arguments.rounds)
    return 0


def measure(place: Place, rounds: int) -> None:
    report = Report()
    with place.fresh(), ExitStack() as workers:
        for _ in range(WORKERS):
            workers.enter_context(worker(waits=False))
        until(lambda: len(shop.app.store.heartbeats.all()) == WORKERS, seconds=30)
        caller = Caller(shop.app.store)
        pings = sorted(caller.ask("ping").elapsed_seconds for _ in range(PINGS))
        report.add(f"ping of {WORKERS} workers, median", f"{pings[PINGS // 2] * 1000:.1f} ms")
        spent = sorted(ping_cpu() for _ in range(PINGS))
        report.add(
            "CPU of stem worker ping, best, median",
            f"{spent[0]:.3f}, {spent[PINGS // 2]:.3f} s",
            f"< {PING_CPU_SECONDS} s",
            spent[0] < PING_CPU_SECONDS,
        )
        times = [revokes(caller, number) for number in range(rounds)]
        figure = f"{min(times):.2f} s (rounds {', '.join(f'{each:.2f}' for each in times)})"
        report.add(f"{REVOKES:,} revokes applied", figure, f"< {REVOKES_SECONDS:g} s", min(times) < REVOKES_SECONDS)


def ping_cpu() -> float:
    command = [sys.executable, "-m", "stem", "worker", "ping"]
    process = subprocess.Popen(command, cwd=HERE, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


def revokes(caller: Caller, number: int) -> float:
    requests = [RevokeRequest(task_id=f"00000000-0000-7000-8000-{number:04}{each:08}") for each in range(REVOKES)]
    start = time.perf_counter()
    done = revoke(shop.app.store.revokes, caller, requests)
    spent = time.perf_counter() - start
    assert done.answers is not None and len(done.answers.replies) == WORKERS and done.answers.is_all_ok
    assert all(len(reply.payload["tasks"]) == REVOKES for reply in done.answers.replies.values())
    return spent


if __name__ == "__main__":
    sys.exit(main())
