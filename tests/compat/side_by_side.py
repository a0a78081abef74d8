"""Runs one project twice on one Redis server: with Celery, and with the bridge in its import lines."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.until import until

PROJECT = Path(__file__).parent / "project"
BIN = Path(sys.executable).parent
WORKERS = {
    "celery": [
        "celery", "--quiet", "-A", "tasks", "worker", "--concurrency", "6", "-Q", "celery,other", "--without-gossip",
        "--without-mingle", "--loglevel", "INFO",
    ],
    "stem": [
        "stem", "worker", "start", "--app", "tasks:app", "--concurrency", "6", "--queue", "celery", "--queue", "other",
    ],
}  # fmt: skip
READY = {"celery": "ready.", "stem": "worker.started"}


def with_bridge(text: str) -> str:
    """The text with the bridge in its import lines, and no other change."""
    return re.sub(r"^(\s*)(from|import) celery\b", r"\1\2 stem.compat.celery", text, flags=re.MULTILINE)


class Side:
    """One of the two: a folder with the project, a worker, and what a client has observed."""

    def __init__(self, name: str, folder: Path, url: str) -> None:
        self.name, self.folder = name, folder
        self.ledger = folder / "ledger"
        self.ledger.touch()
        for file in PROJECT.glob("*.py"):
            text = file.read_text()
            (folder / file.name).write_text(text if name == "celery" else with_bridge(text))
        own = {"BROKER": url, "LEDGER": str(self.ledger), "PYTHONPATH": str(folder), "STEM_NAMESPACE": "side"}
        self.environment = {**os.environ, **own, "C_FORCE_ROOT": "1"}
        self.worker: subprocess.Popen[bytes] | None = None
        self.client: subprocess.Popen[str] | None = None

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def start(self) -> None:
        program, *arguments = WORKERS[self.name]
        with (self.folder / "log").open("wb") as log:
            self.worker = subprocess.Popen(
                [str(BIN / program), *arguments], cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )

    def await_ready(self) -> None:
        until(self._is_ready, seconds=60)

    def _is_ready(self) -> bool:
        assert self.worker is not None and self.worker.poll() is None, self.log
        return READY[self.name] in self.log

    def begin(self, *names: str) -> None:
        self.client = subprocess.Popen(
            [sys.executable, "behaviours.py", *names],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self) -> dict[str, Any]:
        assert self.client is not None
        out, err = self.client.communicate(timeout=110)
        assert self.client.returncode == 0, err
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        return found

    def stop(self) -> None:
        for process in (self.client, self.worker):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGINT if process is self.worker else signal.SIGKILL)
                try:
                    process.wait(15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait(5)
