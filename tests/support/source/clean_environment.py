"""Virtual environments that hold the built wheel with one extra and nothing else."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


class CleanEnvironments:
    """Builds the wheel once, and one environment per extra when a test first needs it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, Path] = {}
        build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT))
        run(sys.executable, *build)
        (self._wheel,) = folder.glob("*.whl")
        self._pins = _pins(folder / "constraints.txt")

    def with_extra(self, extra: str) -> Path:
        """The `bin` folder of the environment; no extra if it is empty."""
        if extra not in self._made:
            self._made[extra] = self._install(extra)
        return self._made[extra]

    def _install(self, extra: str) -> Path:
        place = self._folder / f"an environment {extra}"
        self.make(place, extra, self._pins)
        return place / "bin"

    def make(self, place: Path, extra: str, constraints: Path, *more: str) -> None:
        """Install the wheel with an extra, and `more` packages, into a new environment."""
        run(sys.executable, "-m", "venv", str(place))
        install = (str(place / "bin/python"), "-m", "pip", "install", "--quiet", "--constraint", str(constraints))
        run(*install, "setuptools", "wheel")
        requirement = f"stem-tasks[{extra}] @ {self._wheel.as_uri()}" if extra else str(self._wheel)
        run(*install, "--no-build-isolation", requirement, *more)


def run(*words: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """The command's output. By default it sees no variables of Stem or Python."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("STEM_", "PYTHON"))}
    done = subprocess.run(
        words, cwd=cwd, env=plain if env is None else env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def _pins(path: Path) -> Path:
    """The versions of the lock files without their hashes: pip wants all or none, and our own wheel has none."""
    locked = "".join((ROOT / "requirements" / name).read_text() for name in ("build.txt", "dev.txt"))
    path.write_text("\n".join(sorted(set(re.findall(r"^[\w.\-]+==[^\s;]+(?: ; .+?)?(?= \\)", locked, re.MULTILINE)))))
    return path
