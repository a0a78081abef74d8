"""The example runs by one command, and holds all that it promises."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples/spark_pipeline/pipeline.py"


def test_the_spark_example_holds_what_it_promises(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--keep", str(tmp_path)], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    held, of = re.findall(r"(\d+) of (\d+) expectations held", done.stdout)[0]
    assert held == of and int(of) > 10
    assert "<svg" in (tmp_path / "report.html").read_text()


def test_the_nightly_run_ends_in_its_report(tmp_path: Path) -> None:
    example = EXAMPLE.parents[1] / "etl_nightly/etl.py"
    done = subprocess.run(
        [sys.executable, str(example), "--keep", str(tmp_path)], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "- osaka: 60" in (tmp_path / "report.md").read_text()
