"""An observer in a process of its own: `python -m support.observing FILE` writes each event it sees into the file."""

import os
import subprocess
import sys
from pathlib import Path

from stem import Stem
from support.until import until
from support.workers.processes import environment


class ObserverProcess:
    """Goes on where the file ends, so that one that was killed can be started again."""

    def __init__(self, url: str, namespace: str, file: Path) -> None:
        self._file = file
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.observing", str(file)],
            env=environment(url, namespace),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def seen(self) -> list[tuple[str, str, str]]:
        """Offset, task and kind of each event, in the order in which they came."""
        return seen_in(self._file)

    def wait_until_seen(self, count: int) -> None:
        until(lambda: len(self.seen) >= count, seconds=120, every=0.05)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)


def seen_in(file: Path) -> list[tuple[str, str, str]]:
    lines = file.read_text().rpartition("\n")[0].splitlines() if file.exists() else []
    return [(offset, task, kind) for offset, task, kind in (line.split("\t") for line in lines)]


def main() -> None:
    file = Path(sys.argv[1])
    seen = seen_in(file)
    if file.exists():  # a line that the kill has cut off is read again
        file.write_text("".join("\t".join(each) + "\n" for each in seen))
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with Stem(os.environ["STEM_BROKER_URL"], namespace=os.environ["STEM_NAMESPACE"]) as app:
        for event in app.events.subscribe(after=seen[-1][0] if seen else ""):
            os.write(descriptor, f"{event.offset}\t{event.task_id or ''}\t{event.kind.value}\n".encode())


if __name__ == "__main__":
    main()
