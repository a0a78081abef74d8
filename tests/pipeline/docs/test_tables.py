"""docs/pipeline-tables.md says what the tables are."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stem.backends import connect
from stem.core.settings.app import Settings
from stem.pipeline import schemas
from stem.pipeline.bulk import results_table
from stem.pipeline.lake import lake
from stem.pipeline.rollups import gold, latency
from stem.pipeline.sink import rejects

PAGE = (Path(__file__).parents[3] / "docs" / "pipeline-tables.md").read_text()

REAL = {
    **schemas.SHAPES,
    "partials": gold.SHAPE,
    "rollups": latency.SHOWN,
    "bulk": results_table.COLUMNS,
    "rejects": rejects.SHAPE,
}


def documented(name: str) -> list[tuple[str, str]]:
    section = re.split(r"^##", PAGE.partition(f"### `{name}`\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^\| `(\w+)` \| ([\w<>,]+) \|", section, re.MULTILINE)


@pytest.mark.parametrize("name", REAL)
def test_the_page_has_every_column_with_its_type_in_order(name: str) -> None:
    assert documented(name) == [tuple(column.split(" ", 1)) for column in REAL[name].split(", ")]


def test_the_page_has_no_table_that_is_none() -> None:
    assert set(re.findall(r"^### `(\w+)`$", PAGE, re.MULTILINE)) == set(REAL)


def test_spark_sees_these_columns_in_a_store_and_in_a_lake(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/stem.db"
    connect(url, Settings()).upkeep.close()
    for name in schemas.SHAPES:
        fields = spark.read.format("stem").option("url", url).option("table", name).load().schema.fields
        assert [(field.name, field.dataType.simpleString()) for field in fields] == documented(name)
    lake.prepare_lake(str(tmp_path / "lake"), "here").create_views(spark)
    hidden = {"wait_histogram", "run_histogram"}
    merged = [*(column for column in documented("partials") if column[0] not in hidden), *documented("rollups")]
    views = {name: [*documented(name), *aliases(name)] for name in ("events", "attempts", "partials")}
    for view, expected in {**views, "rollups": merged}.items():
        found = [(field.name, field.dataType.simpleString()) for field in spark.table(view).schema.fields]
        assert found == expected, view


def aliases(view: str) -> list[tuple[str, str]]:
    """Of columns whose own names need quotes."""
    columns = dict(documented(view))
    return [(alias, columns[name]) for alias, name in schemas.ALIASES.get(view, {}).items()]
