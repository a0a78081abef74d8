"""The typed surface holds: mypy accepts what is right and refuses what is wrong."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKED = Path(__file__).with_name("check_typing.py")
ROOT = CHECKED.parents[2]


@pytest.mark.timeout(300)
def test_mypy_refuses_every_wrong_call_and_no_right_one(tmp_path: Path) -> None:
    source = CHECKED.read_text().splitlines()
    expected = {
        (number, match[1])
        for number, line in enumerate(source, 1)
        if (match := re.search(r"# type: ignore\[(.+)\]", line))
    }
    copy = tmp_path / "unguarded.py"
    copy.write_text("\n".join(line.split("  # type: ignore")[0] for line in source) + "\n")
    checked = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file",
            "",
            "--cache-dir",
            str(tmp_path / "cache"),
            str(copy),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
        timeout=280,
    )
    found = {
        (int(match[1]), match[2])
        for line in checked.stdout.splitlines()
        if (match := re.match(r"unguarded\.py:(\d+): error: .*\[(.+)\]$", line))
    }
    assert found == expected, checked.stdout + checked.stderr
    assert len(expected) >= 12
