"""One task over a whole DataFrame: results, retries, dead letters, limits, and items that fell their process."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from stem import ConfigError, InvalidArguments, InvalidTask, Stem, UnknownTask
from stem.cli.pipeline.group import pipeline
from stem.core.delivery import DeadFilter
from stem.core.errors import UsageError
from stem.core.lifecycle import State
from stem.core.revoke import RevokeRequest
from stem.pipeline.bulk.bulk import BulkFailed, BulkRun, Summary
from stem.pipeline.bulk.chunks import ResultFolder
from stem.worker.supervisor import Worker
from support.until import until
from support.worker_apps.bulk import PATH, fill


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Stem]:
    with fill(Stem(f"sqlite:///{tmp_path}/stem.db")) as app:
        yield app


def numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).withColumnRenamed("id", "n")


def over(app: Stem, task: str, frame: DataFrame, **options: object) -> BulkRun:
    found: BulkRun = app.bulk(task).over(frame, app=PATH, **options)
    return found


def rows_of(summary: Summary) -> dict[str, dict[str, Any]]:
    return {row["item"]: row for row in DeltaTable(summary.table).to_pyarrow_table().to_pylist()}


def test_every_row_is_run_once_and_its_result_kept(spark: SparkSession, app: Stem, tmp_path: Path) -> None:
    summary = over(app, "double", numbers(spark, 3000), key="n").to(tmp_path / "results")
    assert (summary.items, summary.succeeded, summary.failed, summary.buried) == (3000, 3000, 0, 0)
    rows = rows_of(summary)
    assert {item: json.loads(str(row["result"])) for item, row in rows.items()} == {str(n): 2 * n for n in range(3000)}
    assert all(row["ok"] and row["attempts"] == 1 and row["started_at"] <= row["finished_at"] for row in rows.values())


def test_failed_items_are_dead_letters_that_an_ordinary_worker_replays(
    spark: SparkSession, app: Stem, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    frame = numbers(spark, 40).selectExpr("n", f"'{mended}' AS mended", "cast(null AS string) AS word")
    found = over(app, "fussy", frame, key="n", id="b1").to(tmp_path / "results")
    assert (found.items, found.succeeded, found.failed, found.buried) == (40, 35, 5, 5)
    letters = app.store.deadletters.page(DeadFilter(), limit=10).items
    assert Counter((each.reason, each.attempt, each.queue) for each in letters) == {
        ("retries-exhausted", 2, "fussy"): 4,
        ("crash-loop", 2, "fussy"): 1,
    }
    assert {each.id for each in letters} == {f"b1:{n}" for n in (3, 13, 23, 27, 33)}
    mended.touch()
    app.store.deadletters.replay(DeadFilter())
    with Worker(app, in_process=True):
        handle = app.handle("b1:27")
        assert handle.get(timeout=30) == "usual 27"  # NULL is no argument: the default holds
        until(lambda: not app.store.broker.depth(), seconds=30)
    states = [record.state for record in app.store.results.get([each.id for each in letters]).values()]
    assert states == [State.SUCCEEDED] * 5


def test_an_item_is_retried_as_its_task_says(spark: SparkSession, app: Stem, tmp_path: Path) -> None:
    rows = rows_of(over(app, "shaky", numbers(spark, 6)).to(tmp_path / "results"))
    assert [(row["ok"], row["attempts"], row["result"]) for row in rows.values()] == [(True, 3, "2")] * 6


def test_an_item_past_its_hard_limit_is_given_up_and_the_rest_goes_on(
    spark: SparkSession, app: Stem, tmp_path: Path
) -> None:
    summary = over(app, "endless", numbers(spark, 20, 1), key="n").to(tmp_path / "results")
    (letter,) = app.store.deadletters.page(DeadFilter(), limit=10).items
    assert letter.error is not None
    assert (summary.succeeded, letter.reason, letter.error.type) == (19, "retries-exhausted", "HardTimeLimitExceeded")


def test_a_soft_limit_can_be_caught_in_an_item(spark: SparkSession, app: Stem, tmp_path: Path) -> None:
    rows = rows_of(over(app, "patient", numbers(spark, 10, 1), key="n").to(tmp_path / "results"))
    assert {item for item, row in rows.items() if row["result"] == '"cut short"'} == {"5"}


def test_an_invalid_argument_becomes_a_dead_letter(spark: SparkSession, app: Stem, tmp_path: Path) -> None:
    rows = "SELECT * FROM VALUES (1, 0D), (2, double('NaN')), (NULL, 0D) AS t (n, seconds)"
    frame = spark.sql(rows).selectExpr("*", f"'{tmp_path}/book' AS book")
    summary = over(app, "marks", frame).to(tmp_path / "results")
    assert (summary.succeeded, summary.buried) == (1, 2)
    letters = app.store.deadletters.page(DeadFilter(), limit=10).items
    assert {each.reason for each in letters} == {"invalid-arguments"}


def test_of_rows_with_one_key_one_is_run(spark: SparkSession, app: Stem, tmp_path: Path) -> None:
    book = tmp_path / "book"
    frame = spark.range(0, 60, 1, 3).selectExpr("id % 20 AS n", f"'{book}' AS book")
    summary = over(app, "marks", frame, key="n").to(tmp_path / "results")
    assert (summary.items, summary.succeeded) == (20, 20)
    assert Counter(book.read_text().split()) == Counter(str(n) for n in range(20))


def test_a_bulk_with_a_key_goes_on_where_it_was(spark: SparkSession, app: Stem, tmp_path: Path) -> None:
    book = tmp_path / "book"
    frame = numbers(spark, 500, 5).selectExpr("n", f"'{book}' AS book")
    bulk = over(app, "marks", frame, key="n", id="b1")
    job = bulk._placed(str(tmp_path / "results"))
    bulk._run(job, ResultFolder(job.table, job.bulk), lambda _items, _failed: None)  # and the driver falls
    again = over(app, "marks", frame.orderBy("n", ascending=False), key="n", id="b1").to(tmp_path / "results")
    assert (again.items, len(book.read_text().split())) == (500, 500)


def test_a_variant_is_an_argument_as_its_json_says(spark: SparkSession, app: Stem, tmp_path: Path) -> None:
    frame = spark.sql("SELECT parse_json('21') AS n")
    assert [row["result"] for row in rows_of(over(app, "double", frame).to(tmp_path / "results")).values()] == ["42"]
    with pytest.raises(UsageError, match="Column 'n' holds VARIANT inside array<variant>"):
        over(app, "double", spark.sql("SELECT array(parse_json('1')) AS n"))


def test_the_same_bulk_again_adds_nothing(spark: SparkSession, app: Stem, tmp_path: Path) -> None:
    frame = numbers(spark, 30).selectExpr("n", "'never' AS mended")
    first = over(app, "fussy", frame, id="b1").to(tmp_path / "results")
    again = over(app, "fussy", frame, id="b1").to(tmp_path / "results")
    assert (first.buried, again.buried, again.items, again.failed) == (4, 0, 30, 4)
    over(app, "double", numbers(spark, 5), id="b2").to(tmp_path / "results")
    assert Counter(row["bulk"] for row in DeltaTable(first.table).to_pyarrow_table().to_pylist()) == {"b1": 30, "b2": 5}
    assert len(app.store.deadletters.page(DeadFilter(), limit=10).items) == 4


def test_nothing_to_do_is_done_at_once(spark: SparkSession, app: Stem, tmp_path: Path) -> None:
    summary = over(app, "double", numbers(spark, 0), id="b1").to(tmp_path / "results")
    again = over(app, "double", numbers(spark, 3), id="b1").to(tmp_path / "results")
    assert (summary.items, summary.buried, again.items) == (0, 0, 0)


def test_a_bulk_whose_driver_fell_goes_on_without_running_again_what_was_kept(
    spark: SparkSession, app: Stem, tmp_path: Path
) -> None:
    book = tmp_path / "book"
    bulk = over(app, "marks", numbers(spark, 50).selectExpr("n", f"'{book}' AS book"), id="b1")
    job = bulk._placed(str(tmp_path / "results"))
    files = bulk._run(job, ResultFolder(job.table, job.bulk), lambda _items, _failed: None)
    (Path(job.table) / files[0].path).unlink()  # as far as it had come
    summary = bulk.to(tmp_path / "results")
    runs = Counter(book.read_text().split())
    assert (summary.items, len(runs), sum(runs.values())) == (50, 50, 50 + files[0].count)


def test_items_can_be_sent_home_as_a_dataframe(
    spark: SparkSession, app: Stem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = over(app, "marks", numbers(spark, 4).selectExpr("n", f"'{tmp_path}/book' AS book"), id="b1").dataframe()
    assert {row["item"]: json.loads(row["result"]) for row in frame.where("ok").collect()} == {
        f"{part}-{place}": f"b1:{part}-{place}" for part in (0, 1) for place in (0, 1)
    }


def test_a_revoke_of_its_task_ends_the_work_on_the_executors(spark: SparkSession, app: Stem, tmp_path: Path) -> None:
    book = tmp_path / "book"

    @app.task(name="all", max_retries=0)
    def all_of_them() -> None:
        frame = numbers(spark, 2000).selectExpr("n", f"'{book}' AS book", "0.1D AS seconds")
        over(app, "marks", frame).to(tmp_path / "results")

    with Worker(app, in_process=True):
        handle = app.enqueue("all")
        until(lambda: book.exists() and len(book.read_text().split()) > 3, seconds=30)
        until(lambda: "progress" in app.store.results.get([handle.id])[handle.id].meta, seconds=30)
        app.store.revokes.put([RevokeRequest(task_id=handle.id, terminate=True)])
        until(lambda: app.store.results.get([handle.id])[handle.id].state is State.CANCELLED, seconds=30)
        until(lambda: not spark.sparkContext.statusTracker().getActiveStageIds(), seconds=30)


@pytest.mark.parametrize(
    ("task", "options", "error", "says"),
    [
        ("nobody", {}, UnknownTask, "No task named 'nobody'"),
        ("guarded", {}, InvalidTask, "a limit for the whole fleet"),
        ("fussy", {}, InvalidArguments, "is missing 'mended'"),
        ("double", {"key": "id"}, InvalidArguments, "no column 'id'"),
        ("double", {"columns": {"m": "n"}}, InvalidArguments, "is missing 'n'"),
        ("double", {"id": "a:b"}, InvalidTask, "no id for a bulk"),
    ],
)
def test_an_impossible_bulk_is_refused_in_one_sentence(
    spark: SparkSession, app: Stem, task: str, options: dict[str, object], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        over(app, task, numbers(spark, 1), **options)


def test_an_app_that_executors_cannot_import_is_told_in_one_sentence(
    spark: SparkSession, app: Stem, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="executors cannot import it"):
        app.bulk("double").over(numbers(spark, 1))
    with pytest.raises(BulkFailed, match="executors have no module 'nowhere'; send your code with --py-files"):
        app.bulk("double").over(numbers(spark, 1), app="nowhere:app").to(tmp_path / "results")
    assert not (tmp_path / "results" / "_delta_log").exists()


def test_the_command_runs_a_bulk_from_a_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEM_BROKER_URL", f"sqlite:///{tmp_path}/stem.db")
    numbers(spark, 20, 1).selectExpr("n AS id", "'never' AS mended").write.csv(f"{tmp_path}/in.csv", header=True)
    words = ["bulk", "--app", "support.worker_apps.bulk_command:app", "--task", "fussy", "--key", "id", "--id", "b1"]
    words += [
        "--from",
        f"{tmp_path}/in.csv",
        "--column",
        "n=id",
        "--column",
        "mended=mended",
        "--to",
        f"{tmp_path}/out",
    ]
    told = CliRunner().invoke(pipeline, [*words, "--json"], catch_exceptions=False)
    assert {**json.loads(told.stdout), "seconds": 0} == {
        "bulk": "b1",
        "table": f"{tmp_path}/out",
        "items": 20,
        "succeeded": 18,
        "failed": 2,
        "buried": 2,
        "seconds": 0,
    }
