"""A schedule that starts a canvas of plain tasks and a Spark task, and ends in a report.

    python examples/etl_nightly/etl.py [--keep FOLDER]

A worker and a scheduler run as they would in production; the schedule is run once by hand. Exit 0 only if the report is right.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
PATIENCE_SECONDS = 120.0
EXPECTED = ["- berlin: 60", "- lima: 60", "- osaka: 60"]


def main(place: Path) -> int:
    os.environ.update(
        STEM_BROKER_URL=f"sqlite:///{place}/stem.db",
        STEM_EXAMPLE_PLACE=str(place),
        STEM_APP="tasks:app",
        STEM_SPARK_MASTER="local[2]",
    )
    with process(place, "worker", "start", "--concurrency", "2"), process(place, "beat"):
        until(lambda: "nightly" in stem("schedule", "list"))
        print(stem("schedule", "list"))
        print(stem("schedule", "run", "nightly"))
        until((place / "report.md").exists)
        until(lambda: "succeeded" in stem("task", "list", "--name", "etl.nightly"))
        print(stem("task", "list"))
    text = (place / "report.md").read_text()
    print(text)
    return 0 if text.splitlines()[2:] == EXPECTED else 1


@contextmanager
def process(place: Path, *words: str) -> Iterator[None]:
    """A part of Stem in a process of its own, its log beside the report."""
    with (place / f"{words[0]}.log").open("wb") as log:
        running = subprocess.Popen([sys.executable, "-m", "stem", *words], cwd=HERE, stderr=log)  # noqa: S603
    try:
        yield
    finally:
        running.terminate()
        running.wait(PATIENCE_SECONDS)


def stem(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "stem", *words], cwd=HERE, capture_output=True, text=True)  # noqa: S603
    return done.stdout or done.stderr


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("The nightly run did not end in time; its logs are beside the report.")
        time.sleep(0.2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="leave files, logs and the report there")
    given = parser.parse_args()
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
        sys.exit(main(given.keep.resolve()))
    with tempfile.TemporaryDirectory(prefix="stem-etl-") as folder:
        sys.exit(main(Path(folder)))
