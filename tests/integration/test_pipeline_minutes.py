"""`stem pipeline minutes` reads what was counted out of the store, with no Spark beside it."""

import json
import sys
from datetime import timedelta
from pathlib import Path
from subprocess import run

import pytest

from stem.backends import connect
from stem.cli.main import run as stem
from stem.contracts.rollups import Measures, MinuteRow
from stem.core.record import moment
from stem.core.settings.app import Settings


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/stem.db"
    store = connect(url, Settings())
    minute = moment(store.upkeep.now() // 60 * 60)
    store.rollups.put(
        MinuteRow(
            minute=minute - timedelta(minutes=age),
            name=name,
            queue="default",
            measures=Measures({"succeeded": 2}, {"run_most": 0.5}, {"run": {-35: 2}}),
        )
        for age in (0, 1, 600)
        for name in ("mail.send", "report.make")
    )
    store.upkeep.close()
    return url


def test_the_last_hour_is_shown_by_what_was_asked(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert stem(["pipeline", "minutes", "--broker-url", url, "--by", "name,queue", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["name"], row["queue"], row["succeeded"], row["runs"]) for row in rows] == [
        ("mail.send", "default", 4, 4),
        ("report.make", "default", 4, 4),
    ]
    assert rows[0]["run_p95"] == pytest.approx(0.5, rel=0.02)
    assert stem(["pipeline", "minutes", "--broker-url", url, "--since", "1d"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split()[:2] == ["minute", "enqueued"]
    assert [line.split()[2] for line in lines] == ["4", "4", "4"]
    assert len(heading) <= 80


def test_a_key_that_nothing_is_counted_by_is_told(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert stem(["pipeline", "minutes", "--broker-url", url, "--by", "colour"]) != 0
    assert "choose from minute, name, queue" in capsys.readouterr().err


def test_neither_spark_nor_arrow_is_loaded(url: str) -> None:
    program = (
        "import sys; from stem.cli.main import run; assert run(sys.argv[1:]) == 0; "
        "assert not {'pyspark', 'pyarrow', 'numpy'} & set(sys.modules)"
    )
    assert run([sys.executable, "-c", program, "pipeline", "minutes", "--broker-url", url]).returncode == 0
