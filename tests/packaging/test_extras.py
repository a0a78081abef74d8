"""The built wheel, in clean environments: each extra brings all that its modules import, and the quickstart runs."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.servers import PostgresServer, RedisServer
from support.source.clean_environment import ROOT, CleanEnvironments, run

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

# Modules that only an extra can import; all others need the package alone.
EXTRA_OF = {
    "stem.backends.redis": "redis",
    "stem.backends.postgres": "postgres",
    "stem.control.transports.http_endpoint": "http",
    "stem.control.transports.http_app": "http",
    "stem.control.transports.http_connection": "http",
    "stem.control.transports.http_server": "http",
    "stem.telemetry.health_app": "http",
    "stem.telemetry.prometheus": "metrics",
    "stem.dashboard": "dashboard",
    "stem.cli.top.dialogs": "top",
    "stem.cli.top.screen": "top",
    "stem.pipeline": "spark",
    "pyspark_stem": "spark",
}
# Bridges to frameworks, which no extra brings: whoever uses one has the framework.
FRAMEWORKS = ("stem.integrations.django", "stem.integrations.fastapi", "stem.integrations.flask")
EXTRAS = ("", "redis", "postgres", "spark", "http", "metrics", "dashboard", "top", "otel", "all")

IMPORT_ALL = """
import importlib, pkgutil, sys, stem
left_out = tuple(sys.argv[1:])
names = [module.name for module in pkgutil.walk_packages(stem.__path__, "stem.", onerror=lambda name: None)]
for name in [*names, "pyspark_stem"]:
    if not name.startswith(left_out) and not name.endswith("__main__"):
        importlib.import_module(name)
"""


@pytest.fixture(params=EXTRAS, ids=lambda extra: extra or "none")
def extra(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def environment(extra: str, environments: CleanEnvironments) -> Path:
    return environments.with_extra(extra)


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
    run(str(environment / "python"), "-c", IMPORT_ALL, *left_out, *FRAMEWORKS, cwd=tmp_path)

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
