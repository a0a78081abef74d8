"""The report, and questions in SQL, out of a small real lake."""

import contextlib
import io
import json
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stem.backends import connect
from stem.cli.main import run as stem
from stem.core.errors import LakeRefused, UsageError
from stem.core.event import Event
from stem.core.settings.app import Settings
from stem.pipeline.lake import lake as lakes
from stem.pipeline.lake.lake import Lake
from stem.pipeline.lake.sql import run_query
from stem.pipeline.lake.stream_to_lake import StreamToLake
from stem.pipeline.report.html import html
from stem.pipeline.report.report import PipelineReport, period, report
from stem.pipeline.report.slo import objective
from stem.pipeline.report.text import text
from stem.pipeline.rollups.minutes import minutes
from support.pipeline.written_history import live

OBJECTIVES = ["mail.send:p95_run<5m", "*:success>99.9%", "report.make:max_wait < 1h", "unheard.of:p50_run<1s"]


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lake, list[Event], str]]:
    """A lake, what it was filled with, and the store's URL; every test here only reads."""
    folder = tmp_path_factory.mktemp("report")
    url = f"sqlite:///{folder}/stem.db"
    store = connect(url, Settings())
    live(store, 200)
    StreamToLake(Settings(broker_url=url), str(folder / "lake")).run(lambda: spark)
    yield lakes.open_lake(str(folder / "lake")), store.events.read(None, limit=10_000), url
    store.upkeep.close()


@pytest.fixture(scope="module")
def made(spark: SparkSession, filled: tuple[Lake, list[Event], str]) -> PipelineReport:
    since, until = period(3600, time.time() + 60)
    return report(filled[0], spark, since=since, until=until, objectives=[objective(each) for each in OBJECTIVES])


def test_a_report_says_what_the_log_says(made: PipelineReport, filled: tuple[Lake, list[Event], str]) -> None:
    logged = filled[1]
    count = {
        kind: sum(event.kind == kind for event in logged) for kind in ("enqueued", "succeeded", "retried", "failed")
    }
    assert {kind: getattr(made.now, kind) for kind in count} == count
    assert made.before is None
    assert sum(task.now.succeeded for task in made.tasks) == count["succeeded"]
    assert sum(slot.succeeded for slot in made.slots) == count["succeeded"]
    spent = sum(
        (e.at - e.started_at).total_seconds() for e in logged if e.started_at and e.kind in ("retried", "failed")
    )
    assert made.now.wasted_seconds >= spent
    assert {(each.error_type, each.task, each.attempts) for each in made.failures} == {
        ("TimeoutError", "mail.send", 4),
        ("TimeoutError", "report.make", 4),
        ("ValueError", "report.make", 4),
        ("UnknownTask", "mail.send", 4),
    }
    assert {each.pattern for each in made.failures} >= {"no answer from host <n>", "no user <n> in <text>"}
    (worker,) = made.workers
    assert (worker.name, worker.scaled_up) == ("w1", 1)
    assert [each.is_met for each in made.objectives] == [True, False, True, None]


def test_minutes_are_read_without_spark_and_say_the_same(
    made: PipelineReport, filled: tuple[Lake, list[Event], str]
) -> None:
    rows = minutes(filled[0], made.since, made.until, by=("name",))
    by_name = {row["name"]: row for row in rows}
    for task in made.tasks:
        row = by_name[task.name]
        assert (row["succeeded"], row["run_p95"], row["wait_p99"]) == (
            task.now.succeeded,
            task.now.run.p95,
            task.now.wait.p99,
        )
    assert minutes(filled[0], made.until, made.until) == []


def test_a_report_is_readable_as_text_and_as_one_html_file_that_asks_nothing_of_the_network(
    made: PipelineReport,
) -> None:
    assert "MISSED" in text(made)
    page = html(made)
    assert not re.search(r"(src|href|url)\s*[=(]|@import|<script", page)
    assert page.count("<svg") == 3
    checked = _Balanced()
    checked.feed(page)
    assert checked.open == []


def test_a_period_of_which_the_lake_knows_nothing_is_told_with_what_to_do(
    spark: SparkSession, filled: tuple[Lake, list[Event], str]
) -> None:
    since, until = period(3600, time.time() - 40 * 86400)
    with pytest.raises(LakeRefused, match="no event since"):
        report(filled[0], spark, since=since, until=until)


@pytest.mark.parametrize("wrong", ["mail.send", "mail.send:p95_wait", "mail.send:p90_wait<5s", "x:p95_wait<soon", ":"])
def test_an_objective_that_is_none_is_refused_with_an_example(wrong: str) -> None:
    with pytest.raises(UsageError, match="no objective"):
        objective(wrong)


def test_the_lake_answers_sql_and_says_in_a_sentence_what_is_wrong_with_a_question(
    spark: SparkSession, filled: tuple[Lake, list[Event], str]
) -> None:
    lake, logged, _ = filled
    columns, rows = run_query(lake, spark, "select sum(succeeded) s, max(run_p99) p from rollups", limit=10)
    assert columns == ["s", "p"]
    assert rows[0][0] == sum(event.kind == "succeeded" for event in logged)
    assert len(run_query(lake, spark, "select * from events", limit=5)[1]) == 6
    for wrong in ("select nonsense from events", "selec 1", "select * from nothing", "drop view events"):
        with pytest.raises(UsageError) as refused:
            run_query(lake, spark, wrong, limit=5)
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 420


def test_the_commands_print_what_scripts_read(filled: tuple[Lake, list[Event], str], tmp_path: Path) -> None:
    lake, logged, url = filled
    told = json.loads(_printed("pipeline", "report", "--since", "1h", "--json", "--lake", lake.root))
    assert told["now"]["enqueued"] == sum(event.kind == "enqueued" for event in logged)
    page = tmp_path / "report.html"
    _printed("pipeline", "report", "--since", "1h", "--format", "html", "--output", str(page), "--lake", lake.root)
    assert page.read_text().startswith("<!doctype html>")
    question = "select kind, count(*) n from events group by kind order by kind"
    as_csv = _printed("pipeline", "sql", question, "--format", "csv", "--lake", lake.root)
    assert as_csv.splitlines()[0] == "kind,n"
    clusters = json.loads(_printed("pipeline", "triage", "--json", "--broker-url", url))["clusters"]
    assert sum(each["count"] for each in clusters) == sum(event.kind == "dead-lettered" for event in logged)
    assert clusters[0]["replay"].startswith(f"stem pipeline triage --replay {clusters[0]['id']}")
    again = json.loads(_printed("pipeline", "run", "--json", "--lake", lake.root, "--broker-url", url))
    assert again["events"] == 0


def test_a_missed_objective_is_an_exit_code_of_its_own_and_the_report_is_printed(
    filled: tuple[Lake, list[Event], str], capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["pipeline", "report", "--since", "1h", "--json", "--lake", filled[0].root]
    assert stem([*words, "--slo", "*:success>1%", "--slo", "unheard.of:p50_run<1s"]) == 0
    assert "nothing was measured for 'unheard.of:p50_run<1s'" in capfd.readouterr().err
    assert stem([*words, "--slo", "*:success>1%", "--slo", "*:success>99.9%"]) == 3
    told = capfd.readouterr()
    assert [each["isMet"] for each in json.loads(told.out)["objectives"]] == [True, False]
    assert "1 of 2 objectives missed: '*:success>99.9%'" in json.loads(told.err)["error"]["message"]


def _printed(*words: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert stem(words) == 0
    return out.getvalue()


class _Balanced(HTMLParser):
    """What was opened and not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
