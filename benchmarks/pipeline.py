"""All figures of the pipeline, one program after the other: start, sink, source, lake, bulk. Name some to run only those.
With --executors N those of sink, of ingest and of bulk, on so many executors of one core each.

python benchmarks/pipeline.py [--executors N] [start] [sink] [source] [lake] [bulk]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
START_BAR_SECONDS = 5.0
EMBEDDED: dict[str, list[str]] = {"start": [], "sink": [], "source": [], "lake": [], "bulk": []}
CLUSTERED = {"sink": [], "lake": ["ingest"], "bulk": []}
_FIRST_ROW = """
import time
began_at = time.monotonic()
from stem.pipeline import session
spark = session(master="local[2,4]")
spark.range(1).collect()
print(time.monotonic() - began_at)
spark.stop()
"""


def start() -> None:
    """From import to the first row: without a class archive, and with one."""
    from stem.pipeline.spark import class_archive, java

    with tempfile.TemporaryDirectory(prefix="stem-cache-") as cache:
        os.environ.update(STEM_CACHE_DIR=cache, STEM_SPARK_ARCHIVE="off")
        cold = min(_first_row() for _ in range(2))
        began_at = time.monotonic()
        class_archive.write(java.find())
        made = time.monotonic() - began_at
        warm = min(_first_row() for _ in range(3))
    is_held = "held" if warm <= START_BAR_SECONDS else "missed"
    print(f"session to first row: {warm:.1f} s with the class archive (bar {START_BAR_SECONDS:g} s: {is_held}), "
          f"{cold:.1f} s without, which takes {made:.0f} s to make")  # fmt: skip


def _first_row() -> float:
    done = subprocess.run([sys.executable, "-c", _FIRST_ROW], check=True, capture_output=True, text=True, timeout=120)
    return float(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*EMBEDDED, []])
    parser.add_argument("--executors", type=int, default=0)
    asked = parser.parse_args()
    failed = 0
    for name, words in (CLUSTERED if asked.executors else EMBEDDED).items():
        if asked.names and name not in asked.names:
            continue
        print(f"\n{name}", flush=True)
        if name == "start":
            start()
        else:
            chosen = [*words, "--executors", str(asked.executors)] if asked.executors else words
            done = subprocess.run([sys.executable, HERE / f"pipeline_{name}.py", *chosen], check=False)
            failed += done.returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
