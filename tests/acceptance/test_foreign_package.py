"""The other library called `stem`, installed over this one, is noticed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stem

REMEDY = "pip uninstall stem && pip install --force-reinstall stem-tasks"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    package = tmp_path / "site" / "stem"
    shutil.copytree(Path(stem.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "descriptor").mkdir()
    (package / "descriptor" / "__init__.py").touch()
    return package


def run(installed: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    place = {"PYTHONPATH": str(installed.parent), "PATH": ""}
    return subprocess.run([sys.executable, *words], env=place, capture_output=True, text=True, timeout=60)


def test_its_files_beside_ours_draw_a_warning(installed: Path) -> None:
    done = run(installed, "-c", "from stem import Stem")
    assert done.returncode == 0 and REMEDY in done.stderr


def test_the_command_says_that_ours_were_replaced(installed: Path) -> None:
    (installed / "__init__.py").write_text('"""Another library."""\n__version__ = "1.8.2"\n')
    done = run(installed, "-m", "stem", "task", "list")
    assert done.returncode == 64, done
    assert done.stderr.startswith("error: ") and REMEDY in done.stderr


def test_the_version_is_that_of_the_distribution() -> None:
    from importlib.metadata import version

    assert stem.__version__ == version("stem-tasks")
