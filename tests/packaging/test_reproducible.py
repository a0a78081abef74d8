"""Wheel and sdist are the same bytes, wherever and whenever they are built, and have all that the package needs."""

import os
import subprocess
import sys
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from support.source.clean_environment import ROOT, run

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(300)]


def checkout(place: Path, *, modified_at: int, mask: int) -> Path:
    """A copy of the files that git has, as another clone at another time would be."""
    place.mkdir(parents=True)
    listed = run("git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, place / name
        if not source.is_file():
            continue  # deleted and not committed yet
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
        target.chmod((source.stat().st_mode | 0o666) & ~mask)
        os.utime(target, (modified_at, modified_at))
    return place


def build(folder: Path, *, mask: int, zone: str) -> dict[str, str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "SOURCE_DATE_EPOCH": "1700000000", "TZ": zone}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build"], cwd=folder, env=env, check=True, capture_output=True, umask=mask
    )
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in (folder / "dist").iterdir()}


def test_two_builds_in_other_folders_at_other_times_are_the_same_bytes(tmp_path: Path) -> None:
    here = checkout(tmp_path / "a", modified_at=1_600_000_000, mask=0o022)
    there = checkout(tmp_path / "another place" / "b", modified_at=1_750_000_000, mask=0o077)
    built = build(here, mask=0o022, zone="UTC")
    assert len(built) == 2
    assert build(there, mask=0o077, zone="Asia/Tokyo") == built

    with zipfile.ZipFile(next((here / "dist").glob("*.whl"))) as wheel:
        inside = set(wheel.namelist())
    missing = [name for name in package_files(here / "src") if name not in inside]
    assert missing == []
    with tarfile.open(next((here / "dist").glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "LICENSE", "src/stem/cli/init/template/.gitignore.tmpl"} <= names
    assert not [name for name in names if name.startswith((".git/", ".venv", "dist/")) or name.endswith(".pyc")]


def package_files(source: Path) -> list[str]:
    """Every file of the package, templates, SQL and pages among them."""
    return [str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()]
