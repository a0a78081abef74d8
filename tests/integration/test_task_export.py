"""`stem task export`: every task of a store in a file that other programs read, however many there are."""

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE, Popen, run

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stem.cli.main import run as stem
from stem.cli.task_export import harmless
from stem.contracts.store import Store
from stem.core.delivery import Ending
from stem.core.outcome import Done
from stem.core.record import TaskError
from support.builders import a_push, dead

MANY = 12_000  # more than a listing shows at once

Export = Callable[..., int]


@pytest.fixture
def export(durable_url: str, namespace: str) -> Export:
    def call(*words: str) -> int:
        return stem(["task", "export", "--broker-url", durable_url, "--namespace", namespace, *words])

    return call


@pytest.fixture
def filled(durable_store: Store) -> Store:
    """One task that succeeded, one that failed, one that waits."""
    durable_store.broker.push(
        [a_push("good", meta={"k": ["v"]}), a_push("bad"), a_push("later", queue="other", name="demo.other")]
    )
    by_id = {each.lease.id: each for each in durable_store.broker.claim(["default"], limit=2, lease_seconds=60)}
    error = TaskError("ValueError", '=HYPERLINK("http://x")', "Traceback")
    durable_store.broker.settle(
        [Ending(by_id["good"].lease, Done(msgspec.Raw(b'{"n":1}')), run_seconds=0.5), dead(by_id["bad"], error=error)],
        worker="w1",
    )
    return durable_store


def rows_of(path: Path) -> dict[str, dict[str, object]]:
    match path.suffix:
        case ".jsonl":
            rows = [json.loads(line) for line in path.read_text().splitlines()]
        case ".csv":
            with path.open(newline="") as file:
                rows = list(csv.DictReader(file))
        case _:
            rows = pq.read_table(path).to_pylist()
    return {row["id"]: row for row in rows}


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_every_task_is_in_the_file_however_many_there_are(
    durable_store: Store, export: Export, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for start in range(0, MANY, 2000):
        durable_store.broker.push([a_push(f"t{n}") for n in range(start, start + 2000)])
    assert export("--output", str(tmp_path / f"tasks.{form}")) == 0
    assert capsys.readouterr().out == f"12,000 tasks are in {tmp_path}/tasks.{form}.\n"
    assert rows_of(tmp_path / f"tasks.{form}").keys() == {f"t{n}" for n in range(MANY)}
    assert [each.name for each in tmp_path.glob(".*")] == [], "nothing is left beside it"


def test_jsonl_has_values_and_moments_that_programs_read(
    filled: Store, export: Export, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert export() == 0
    rows = {row["id"]: row for row in map(json.loads, capsysbinary.readouterr().out.splitlines())}
    good, record = rows["good"], filled.results.get(["good"])["good"]
    assert (good["state"], good["worker"], good["payload"], good["meta"]) == ("succeeded", "w1", {"n": 1}, {"k": ["v"]})
    assert good["finished_at"] == record.finished_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # type: ignore[union-attr]
    assert (rows["bad"]["error_type"], rows["bad"]["payload"], rows["later"]["worker"]) == ("ValueError", None, None)


def test_parquet_has_the_types_of_the_pipelines_table(filled: Store, export: Export, tmp_path: Path) -> None:
    assert export("--output", str(tmp_path / "t.parquet")) == 0
    schema = pq.read_schema(tmp_path / "t.parquet")
    assert (
        schema.field("enqueued_at").type == pa.timestamp("us", tz="UTC") and schema.field("attempt").type == pa.int32()
    )
    good = rows_of(tmp_path / "t.parquet")["good"]
    assert good["finished_at"] == filled.results.get(["good"])["good"].finished_at and good["payload"] == '{"n":1}'


def test_csv_holds_no_formula(filled: Store, export: Export, tmp_path: Path) -> None:
    assert export("--output", str(tmp_path / "t.csv")) == 0
    assert rows_of(tmp_path / "t.csv")["bad"]["error_message"] == '\'=HYPERLINK("http://x")'
    assert [harmless(cell) for cell in ("-5", "-5+1", "a=b", 7, None)] == ["-5", "'-5+1", "a=b", 7, None]


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["--state", "failed"], {"bad"}),
        (["--queue", "other"], {"later"}),
        (["--name", "demo.other"], {"later"}),
        (["--since", "1h"], {"good", "bad", "later"}),
        (["--until", "1h"], set()),
    ],
)
def test_only_what_is_asked_for(
    filled: Store, export: Export, tmp_path: Path, words: list[str], ids: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.jsonl"
    assert export(*words, "--output", str(path), "--json") == 0
    assert rows_of(path).keys() == ids
    assert json.loads(capsys.readouterr().out) == {"tasks": len(ids), "output": str(path), "format": "jsonl"}


def test_a_failed_export_is_reported_in_one_sentence_and_leaves_nothing(
    filled: Store, export: Export, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export("--output", str(tmp_path / "tasks.xlsx")) == 64
    assert "has no ending that names a format" in capsys.readouterr().err
    assert export("--output", str(tmp_path / "nowhere" / "t.csv")) == 64
    assert "cannot be written (No such file or directory)" in capsys.readouterr().err


def test_without_pyarrow_parquet_says_what_to_install_and_the_others_work(tmp_path: Path) -> None:
    """In an interpreter that has none, and no Spark."""
    hide = "import sys; sys.modules['pyarrow'] = None; sys.modules['pyspark'] = None; "
    call = "from stem.cli.main import main; main()"
    lines = f"{hide}import importlib.util as u; find = u.find_spec; "
    lines += f"u.find_spec = lambda name, *rest: None if name == 'pyarrow' else find(name, *rest); {call}"
    command = [sys.executable, "-c", lines, "task", "export", "--broker-url", f"sqlite:///{tmp_path}/stem.db"]
    stem(["enqueue", "demo", "--broker-url", f"sqlite:///{tmp_path}/stem.db"])
    refused = run([*command, "--format", "parquet"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (64, "") and "pip install pyarrow" in refused.stderr
    told = run([*command, "--format", "csv"], capture_output=True, text=True, check=True)
    assert len(told.stdout.splitlines()) == 2


def test_a_reader_that_leaves_ends_it_quietly(durable_store: Store, durable_url: str, namespace: str) -> None:
    durable_store.broker.push([a_push() for _ in range(3000)])
    words = [sys.executable, "-m", "stem", "task", "export", "--broker-url", durable_url, "--namespace", namespace]
    with Popen(words, stdout=PIPE, stderr=PIPE) as export:
        assert export.stdout is not None and export.stderr is not None
        export.stdout.readline()
        export.stdout.close()
        assert export.stderr.read() == b""
