"""A report of a long window out of a short history: plots, rates and comparisons keep to what the lake has."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stem.backends.sqlite import connect
from stem.core.delivery import DeadFilter
from stem.core.settings.app import Settings
from stem.pipeline.lake import lake as lakes
from stem.pipeline.lake.lake import Lake
from stem.pipeline.lake.stream_to_lake import StreamToLake
from stem.pipeline.report.html import html
from stem.pipeline.report.report import PipelineReport, report
from stem.pipeline.report.text import text
from stem.pipeline.report.triage import replay
from support.pipeline.written_history import live

DAY = 86400.0
NOW = float(int(time.time()) // 60 * 60)

Lived = Callable[..., Lake]


@pytest.fixture
def lived(spark: SparkSession, tmp_path: Path) -> Lived:
    """A lake of a fleet that was busy in these minutes, told in seconds before now."""

    def fill(*minutes: float, tasks: int = 50) -> Lake:
        url, moment = f"sqlite:///{tmp_path}/stem.db", [0.0]
        store = connect(url, Settings(), clock=lambda: moment[0])
        for ago in sorted(minutes, reverse=True):
            moment[0] = NOW - ago + 30  # in the middle of a minute
            live(store, tasks)
        store.upkeep.close()
        StreamToLake(Settings(broker_url=url), str(tmp_path / "lake")).run(lambda: spark)
        return lakes.open_lake(str(tmp_path / "lake"))

    return fill


def made(spark: SparkSession, lake: Lake, seconds: float) -> PipelineReport:
    until = datetime.fromtimestamp(NOW, UTC)
    return report(lake, spark, since=until - timedelta(seconds=seconds), until=until)


def test_an_hour_of_history_fills_the_plots_of_a_week(spark: SparkSession, lived: Lived) -> None:
    told = made(spark, lived(*(2 * DAY + 60 * minute for minute in range(60))), 7 * DAY)
    # The longest of them ran for 90 s, and so began two minutes before the first of them.
    assert (told.data_until - told.data_since, told.slot_seconds, len(told.slots)) == (timedelta(minutes=62), 60, 62)
    assert told.before is None and all(task.before is None for task in told.tasks)
    for shown in (text(told), html(told)):
        assert "The lake has 1 hour of these 7 days" in shown
        assert "No data of the 7 days before to compare with." in shown and "vs before" not in shown
    assert "per minute" in text(told) and told.now.attempts / 60 > 40
    page = html(told)
    assert page.count('class="hint"') == 3 * 62, "one for each minute in each of the three plots"
    assert "<text" not in page, "labels are text of the page, for an SVG's shrink with it on a phone"
    assert max(map(len, text(told).splitlines())) <= 80


def test_one_minute_of_history_is_no_bar_as_wide_as_the_page(spark: SparkSession, lived: Lived) -> None:
    told = made(spark, lived(3600.0, tasks=5), DAY)
    assert len(told.slots) == 1
    page = html(told)
    assert "The lake has 1 minute of these 1 day" in page
    width = float(page.partition('class="hint" x="')[2].partition('width="')[2].partition('"')[0])
    assert width == pytest.approx(100)  # of a thousand


@pytest.mark.parametrize(("begins", "is_compared"), [(1.97, True), (1.4, False), (3.0, True)])
def test_a_period_that_the_lake_has_not_seen_whole_is_not_compared(
    spark: SparkSession, lived: Lived, begins: float, is_compared: bool
) -> None:
    told = made(spark, lived(begins * DAY, 1.3 * DAY, 0.5 * DAY), DAY)
    assert (told.before is not None) == is_compared
    assert ("Compared with the 1 day before." in text(told)) == is_compared
    assert told.now.enqueued == 50


def test_the_command_beside_a_failure_replays_its_letters_and_no_other_task_s(
    spark: SparkSession, lived: Lived, tmp_path: Path
) -> None:
    told = made(spark, lived(600.0, 540.0), DAY)
    failed = next(each for each in told.failures if each.replay and each.error_type == "ValueError")
    assert failed.replay == f"stem pipeline triage --replay {failed.fingerprint} --name {failed.task}"
    assert failed.replay in text(told) and failed.replay in html(told)
    store = connect(f"sqlite:///{tmp_path}/stem.db", Settings())
    replayed = replay(store, failed.fingerprint, DeadFilter(name=failed.task))
    assert len(replayed) == failed.failed and failed.sample_id in replayed
    store.upkeep.close()
