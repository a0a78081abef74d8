"""The demo keeps its promises, takes little time and leaves no process."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from support.until import until

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


@pytest.mark.timeout(300)
def test_the_demo_holds_what_it_promises_and_leaves_nothing_behind(tmp_path: Path) -> None:
    cache = str(Path(sys.prefix) / "stem-cache")
    environment = {**os.environ, "TMPDIR": str(tmp_path), "STEM_DEMO_RUN": tmp_path.name, "STEM_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, str(DEMO)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stdout + done.stderr
    held, of = re.findall(r"(\d+) of (\d+) expectations held", done.stdout)[0]
    assert held == of and int(of) > 30
    until(lambda: not left_of(tmp_path.name))  # a JVM takes a moment to end
    assert list(tmp_path.iterdir()) == []


def left_of(run: str) -> list[psutil.Process]:
    return [each for each in psutil.process_iter() if environment_of(each).get("STEM_DEMO_RUN") == run]


def environment_of(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}
