"""The Python of the pipeline's pages is run as it stands."""

import importlib.util
import json
import re
import shlex
from pathlib import Path

import click
import pytest
import yaml
from pyspark.sql import SparkSession

from stem.backends import connect
from stem.cli.main import cli
from stem.core.settings.app import PipelineSettings, Settings
from stem.pipeline.lake.delta import Table
from stem.pipeline.lake.stream_to_lake import StreamToLake
from stem.pipeline.sink.rejects import SHAPE
from support.pipeline import shop_app as shop
from support.pipeline.written_history import live
from support.stores.calls import claim

DOCS = Path(__file__).parents[3] / "docs"
NOT_RUN = "<!-- not run: needs a Kafka server -->\n"
KAFKA = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"


def blocks(page: str) -> list[str]:
    """What can be run of it, in order."""
    text = (DOCS / page).read_text()
    assert text.count("not run") == len(re.findall(re.escape(NOT_RUN) + "```python", text)), (
        "each mark is before a block"
    )
    left = re.sub(re.escape(NOT_RUN) + r"```python\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^```python\n(.*?)^```", left, re.MULTILINE | re.DOTALL)


def test_streams_become_tasks_and_endings_become_streams(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/stem.db"
    store = connect(url, Settings())
    live(store, 200)
    (tmp_path / "incoming").mkdir()
    order = {"order": 1, "country": "NO", "amount": 9.5}
    (tmp_path / "incoming" / "a.json").write_text(json.dumps(order) + "\n" + json.dumps({**order, "order": 2}))
    messages = [(b"k", json.dumps({"order": n, "country": "SE"}).encode()) for n in (3, 4)] + [(b"k", b"no order")]
    rows = [(key, value, "orders", 0, n, None, 0) for n, (key, value) in enumerate(messages)]
    spark.createDataFrame(rows, KAFKA).write.parquet(str(tmp_path / "kafka"))
    app, *examples = blocks("pipeline-streaming.md")
    assert app.split("\n\n\n", 1)[1] in Path(shop.__file__).read_text(), "the page's app is the tests'"
    world: dict[str, object] = {"kafka": spark.readStream.schema(KAFKA).parquet(str(tmp_path / "kafka"))}
    for example in examples:
        # The session of the tests was started elsewhere, so paths and the store are told whole.
        example = re.sub(r'"(incoming|checkpoints|rejected)', rf'"{tmp_path}/\1', example)
        where = f'.option("url", "{url}")'
        code = example.replace('"shop:app"', '"support.pipeline.shop_app:app"').replace(
            'format("stem")', f'format("stem"){where}'
        )
        exec(compile(code, "pipeline-streaming.md", "exec"), world)
    sent = {(given := each.envelope.arguments())["order"]: given for each in claim(store, "orders")}
    assert sent == {
        1: order,
        2: {**order, "order": 2},
        3: {"order": 3, "country": "SE"},
        4: {"order": 4, "country": "SE"},
    }
    (bad,) = Table(str(tmp_path / "rejected-orders"), SHAPE).frame(spark).collect()
    assert "order.confirm" in bad.reason
    assert re.search(r"^report.make failed \d+ times since \d\d:\d\d$", capsys.readouterr().out, re.MULTILINE)
    store.upkeep.close()


PAGES = sorted(DOCS.glob("pipeline*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_the_pages_is_one(page: Path) -> None:
    """Parsed as the command line would be, and not run."""
    text = page.read_text().replace("%%", "%")  # as systemd writes it
    lines = re.findall(r"^(?:ExecStart=\S*/|\$ )?stem (.*)$", text, re.MULTILINE)
    assert lines or page.stem not in ("pipeline", "pipeline-deployment")
    for line in lines:
        context = click.Context(cli, info_name="stem", **cli.context_settings)
        words = shlex.split(line, comments=True)
        group: click.Command = cli
        while isinstance(group, click.Group):
            name = words.pop(0)
            found = group.get_command(context, name)
            assert found is not None, line
            group = found
        group.make_context("stem", words, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_setting_of_the_pages_is_one(page: Path) -> None:
    for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        told = yaml.safe_load(block)
        if "pipeline" in told:
            assert set(told["pipeline"]) <= set(PipelineSettings.__struct_fields__), block


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_of_the_pages_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
        assert (DOCS / link).exists(), link


def test_the_lake_is_read_without_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/stem.db"
    store = connect(url, Settings())
    live(store, 200)
    store.upkeep.close()
    StreamToLake(Settings(broker_url=url), str(tmp_path / "stem-lake")).run(lambda: spark)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    world: dict[str, object] = {}
    for example in blocks("pipeline-reading.md"):
        wanted = re.search(r"^import (polars|duckdb)", example, re.MULTILINE)
        if wanted and importlib.util.find_spec(wanted[1]) is None:
            continue  # too large for what two examples are worth
        exec(compile(example, "pipeline-reading.md", "exec"), world)
        assert "report.make" in capsys.readouterr().out
