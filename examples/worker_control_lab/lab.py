"""A lab in one command: two real workers on a SQLite file, steered by `stem worker` as an operator would type it.

    python examples/worker_control_lab/lab.py

Each command is printed with what it says. Ends in how many expectations held; exit 0 only if all did.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PATIENCE_SECONDS = 60.0


class Lab:
    def __init__(self, place: Path) -> None:
        self._place = place
        self._environment = {
            **os.environ,
            "STEM_BROKER_URL": f"sqlite:///{place / 'stem.db'}",
            "STEM_APP": "tasks:app",
            "STEM_CONTROL_TIMEOUT": "20s",  # on a machine that is busy with something else
        }
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self.held: list[bool] = []

    def start(self, name: str) -> None:
        words = [sys.executable, "-m", "stem", "worker", "start", "--name", name, "--concurrency", "2"]
        with (self._place / f"{name}.log").open("wb") as log:
            self._workers[name] = subprocess.Popen(words, cwd=HERE, env=self._environment, stderr=log)  # noqa: S603
        self.until(lambda: self.quietly("worker", "ping", "--worker", name, "--timeout", "1s")[0] == 0)

    def stem(self, *words: str, code: int = 0) -> str:
        """Type a command, show it and what it says, and expect this exit code."""
        print(f"\n$ stem {shlex.join(words)}")
        found, out, err = self.quietly(*words)
        print((out + err).rstrip())
        self.expect(f"exit code {code}", code, found)
        return out.strip()

    def json(self, *words: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.quietly(*words, "--json")[1])
        return told

    def quietly(self, *words: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "stem", *words]
        done = subprocess.run(command, cwd=HERE, env=self._environment, capture_output=True, text=True)  # noqa: S603
        return done.returncode, done.stdout, done.stderr

    def state(self, task: str) -> str:
        return str(self.json("task", "show", task)["status"])

    def expect(self, what: str, expected: object, seen: object) -> None:
        self.held.append(expected == seen)
        if expected != seen:
            print(f"FAILED: {what}: expected {expected}, seen {seen}")

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > end:
                raise SystemExit(f"not within {PATIENCE_SECONDS:g} s")
            time.sleep(0.05)

    def freeze(self, name: str) -> None:
        print(f"\n$ kill -STOP {name}")
        self._workers[name].send_signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        self._workers[name].send_signal(signal.SIGCONT)

    def ending(self, name: str) -> int:
        return self._workers[name].wait(PATIENCE_SECONDS)

    def close(self) -> None:
        for worker in self._workers.values():
            worker.kill()
            worker.wait()


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="stem-lab-", ignore_cleanup_errors=True) as place:
        lab = Lab(Path(place))
        try:
            for scene in (look, revoke, pause, freeze, shut_down):
                scene(lab)
        finally:
            lab.close()
    print(f"\n{sum(lab.held)} of {len(lab.held)} expectations held.")
    return 0 if all(lab.held) else 1


def look(lab: Lab) -> None:
    for name in ("worker-a", "worker-b"):
        lab.start(name)
    lab.stem("worker", "ping")
    lab.stem("worker", "ping", "--worker", "worker-a", "--worker", "worker-b")
    lab.stem("worker", "stats")
    lab.expect("replies", 2, len(lab.json("worker", "ping")["replies"]))


def revoke(lab: Lab) -> None:
    task = lab.stem("enqueue", "render", "--arg", "tiles=2000")
    lab.until(lambda: lab.state(task) == "running")
    lab.stem("worker", "inspect")
    lab.stem("worker", "revoke", "--task", task, "--terminate", "--reason", "wrong picture")
    lab.until(lambda: lab.state(task) != "running")
    lab.expect("the revoked task", "cancelled", lab.state(task))


def pause(lab: Lab) -> None:
    lab.stem("worker", "pause", "--queue", "mail")
    task = lab.stem("enqueue", "mail.send", "--arg", "to=ada@example.com", "--queue", "mail")
    lab.stem("worker", "queue-status")
    lab.expect("while paused", "queued", lab.state(task))
    lab.stem("worker", "resume", "--queue", "mail")
    lab.expect("when resumed", '"sent to ada@example.com"', lab.stem("task", "result", task, "--wait", "30s"))


def freeze(lab: Lab) -> None:
    lab.freeze("worker-b")
    lab.stem("worker", "ping", "--timeout", "1s", code=70)
    lab.thaw("worker-b")


def shut_down(lab: Lab) -> None:
    lab.stem("worker", "shutdown", "--mode", "warm")
    lab.expect("exit codes", [0, 0], [lab.ending(name) for name in ("worker-a", "worker-b")])
    lab.stem("worker", "ping", code=1)


if __name__ == "__main__":
    sys.exit(main())
