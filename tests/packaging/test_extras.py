"""The built wheel, in clean environments: each extra brings all that its modules import, and the quickstart runs."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.servers import PostgresServer, RedisServer

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

# Modules that only an extra can import; all others need the package alone.
EXTRA_OF = {
    "stem.backends.redis": "redis",
    "stem.backends.postgres": "postgres",
    "stem.pipeline": "spark",
    "pyspark_stem": "spark",
}
EXTRAS = ("", "redis", "postgres", "spark", "otel", "all")

IMPORT_ALL = """
import importlib, pkgutil, sys, stem
left_out = tuple(sys.argv[1:])
names = [module.name for module in pkgutil.walk_packages(stem.__path__, "stem.", onerror=lambda name: None)]
for name in [*names, "pyspark_stem"]:
    if not name.startswith(left_out) and not name.endswith("__main__"):
        importlib.import_module(name)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(ROOT),
    )
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def pins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The versions of the lock files without their hashes: pip wants all or none, and a wheel of our own has none."""
    locked = "".join((ROOT / "requirements" / name).read_text() for name in ("build.txt", "dev.txt"))
    path = tmp_path_factory.mktemp("pins") / "constraints.txt"
    path.write_text("\n".join(sorted(set(re.findall(r"^[\w.\-]+==[^\s;]+(?: ; .+?)?(?= \\)", locked, re.MULTILINE)))))
    return path


@pytest.fixture(params=EXTRAS, ids=lambda extra: extra or "none")
def extra(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def environment(extra: str, wheel: Path, pins: Path, tmp_path: Path) -> Path:
    """A virtual environment that holds the wheel with one extra, and nothing of ours besides."""
    place = tmp_path / "an environment"
    run(sys.executable, "-m", "venv", str(place))
    python = str(place / "bin/python")
    requirement = f"stem-tasks[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
    run(python, "-m", "pip", "install", "--quiet", "--constraint", str(pins), "setuptools", "wheel")
    run(python, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--constraint", str(pins), requirement)
    return place / "bin"


@pytest.fixture
def broker_url(extra: str, tmp_path: Path) -> Iterator[str]:
    """A server where the extra is for one, else a file."""
    servers = {"redis": RedisServer, "postgres": PostgresServer}
    if extra not in servers:
        yield f"sqlite:///{tmp_path}/stem.db"
        return
    server = servers[extra]()
    yield server.url
    server.close()


def test_an_extra_brings_what_its_modules_import_and_the_quickstart_runs(
    extra: str, environment: Path, broker_url: str, tmp_path: Path
) -> None:
    left_out = [] if extra == "all" else [name for name, owner in EXTRA_OF.items() if owner != extra]
    run(str(environment / "python"), "-c", IMPORT_ALL, *left_out, cwd=tmp_path)

    (tmp_path / "shop.py").write_text(quickstart())
    variables = {
        "PATH": f"{environment}{os.pathsep}{os.environ['PATH']}",
        "STEM_BROKER_URL": broker_url,
        "HOME": str(tmp_path),
    }
    stem = str(environment / "stem")
    worker = subprocess.Popen([stem, "worker", "start", "--app", "shop:app"], cwd=tmp_path, env=variables)
    words = ["enqueue", "shop.send_invoice", "--arg", "customer=7", "--arg", "total=10", "--app", "shop:app"]
    try:
        assert '"invoice for 7: 10.00"' in run(stem, *words, "--wait", "60s", cwd=tmp_path, env=variables)
    finally:
        worker.terminate()
        worker.wait(timeout=60)


def quickstart() -> str:
    """The app of the README, as it is printed there."""
    found = re.search(r"```python\n(# shop.py\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


def run(*words: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("STEM_", "PYTHON"))}
    done = subprocess.run(
        words, cwd=cwd, env=plain if env is None else env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout
