"""The examples for web frameworks and agents run by one command, come out right, and leave no process behind."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from support.until import until

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("example", ["django_shop", "web_app", "agents"])
def test_an_example_holds_what_it_promises(example: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "STEM_EXAMPLE_RUN": tmp_path.name}
    command = [sys.executable, str(EXAMPLES / example / "run.py")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "held" in done.stdout and "FAILED" not in done.stdout
    until(lambda: not left_of(tmp_path.name))
    assert list(tmp_path.iterdir()) == []


def left_of(run: str) -> list[psutil.Process]:
    return [each for each in psutil.process_iter() if environment_of(each).get("STEM_EXAMPLE_RUN") == run]


def environment_of(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}
