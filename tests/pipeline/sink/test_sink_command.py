"""`stem pipeline enqueue`: a file's rows become tasks by one command."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stem.backends import connect
from stem.cli.main import run
from stem.core.settings.app import Settings
from support.stores.calls import claim, depth

APP = "support.pipeline.mail_app:app"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users.csv").write_text("to,copies\nada,1\ngrace,2\n")
    monkeypatch.setenv("STEM_BROKER_URL", f"sqlite:///{tmp_path}/stem.db")


def test_a_file_becomes_tasks_once(spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = ["pipeline", "enqueue", "--task", "mail.send", "--from", "users.csv", "--job", "monday"]
    assert run([*command, "--queue", "q"]) == 0
    told = capfd.readouterr()
    assert told.out == "2 tasks enqueued. Job monday\n"
    assert not {*told.err} & {"\x1b", "\r"}  # no bar where there is no terminal
    assert run(command) == 0
    said = "Nothing was added: job monday had enqueued its 2 tasks before. Use another --job for new rows.\n"
    assert capfd.readouterr().out == said
    assert run([*command, "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"job": "monday", "created": 0, "known": 2}
    store = connect(f"sqlite:///{tmp_path}/stem.db", Settings())
    assert [each.envelope.arguments() for each in claim(store, "q")] == [
        {"to": "ada", "copies": 1},
        {"to": "grace", "copies": 2},
    ]
    assert depth(store).ready == 0
    store.upkeep.close()


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (["--from", "nowhere.csv", "--task", "t"], 64, "There is no file nowhere.csv"),
        (["--from", "users.csv"], 64, "The write names no task"),
        (["--from", "table:nowhere", "--task", "t"], 64, "Spark cannot read table:nowhere"),
        (["--from", "users.csv", "--task", "mail.note", "--app", APP], 64, "mail.note is missing 'text'"),
        (["--from", "users.csv", "--task", "t", "--broker-url", "redis://127.0.0.1:1/0"], 70, "127.0.0.1:1"),
    ],
)
def test_an_impossible_write_is_refused_in_one_sentence(
    spark: SparkSession, words: list[str], exit_code: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["pipeline", "enqueue", *words]) == exit_code
    captured = capfd.readouterr()
    (line,) = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert said in line and "Traceback" not in captured.err + captured.out
