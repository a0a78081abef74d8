"""The lake through a real Spark Connect server: the batches are planned here and run there."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.settings.app import Settings
from support.pipeline.spark_jobs import connect_server
from support.pipeline.written_history import live


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("server")) as running:
        yield running.address


@pytest.fixture
def past(tmp_path: Path) -> Iterator[Store]:
    store = connect(f"sqlite:///{tmp_path}/stem.db", Settings())
    live(store, 300)
    yield store
    store.upkeep.close()


def test_every_command_of_the_lake_works_on_a_connect_server(remote: str, past: Store, tmp_path: Path) -> None:
    lake = ["--lake", str(tmp_path / "lake"), "--remote", remote]

    def run(*words: str) -> str:
        """In a process of its own: one that has a regular Spark session can open no remote one."""
        command = [sys.executable, "-m", "stem", "pipeline", *words]
        return subprocess.run(command, cwd=tmp_path, timeout=120, check=True, stdout=subprocess.PIPE, text=True).stdout

    brought = 0
    for _ in range(2):
        live(past, 50)
        brought += json.loads(run("run", "--batch", "1000", "--broker-url", past.url, *lake, "--json"))["events"]
    logged = past.events.read(None, limit=10_000)
    assert brought == len(logged)
    count = "select count(*) as n, count(distinct offset) as m from events"
    assert run("sql", count, "--format", "json", *lake).count(str(len(logged))) == 2
    assert json.loads(run("report", "--format", "json", *lake))
    run("doctor", "--remote", remote)


def test_the_code_of_an_app_goes_to_a_server_that_has_it_not(remote: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/stem.db"
    app = f"""
from stem import Stem
app = Stem({url!r})
@app.task(name="mail.send")
def send(to: str) -> None: ...
"""
    (tmp_path / "postoffice.py").write_text(app)
    (tmp_path / "in.csv").write_text("to\nada\ngrace\n")
    words = ["pipeline", "enqueue", "--app", "postoffice:app", "--task", "mail.send", "--from", f"{tmp_path}/in.csv"]

    def run(*more: str) -> int:
        command = [sys.executable, "-m", "stem", *words, "--remote", remote, *more]
        return subprocess.run(command, cwd=tmp_path, timeout=120, check=False).returncode

    assert run() != 0
    assert run("--py-files", "postoffice.py") == 0
    store = connect(url, Settings())
    assert store.broker.depth()["default"].ready == 2
    store.upkeep.close()
