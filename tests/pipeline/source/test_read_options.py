"""What the options of a read may ask for, and what is said of those that cannot be meant. Opens nothing."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from stem.core.errors import StemError
from stem.pipeline import schemas
from stem.pipeline.source.read_options import read_options
from stem.pipeline.source.source import StemReader
from stem.pipeline.source.stream import StemStreamReader

ANY = "sqlite:////tmp/stem.db"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"table": "evnts"}, "There is no table 'evnts'; .*; did you mean events\\?"),
        ({"quue": "a"}, "'quue' is not an option of a read; .*; did you mean queue\\?"),
        ({"path": "a"}, "A store has no path; call .load\\(\\) without one"),
        ({"state": "done"}, "'done' is not a state; the states are queued, "),
        ({"table": "events", "state": "failed"}, "events cannot be chosen by 'state'; use name, queue, since, until."),
        ({"table": "heartbeats", "queue": "a"}, "heartbeats cannot be chosen by 'queue'; leave it out."),
        ({"since": "yesterday"}, "since 'yesterday' is neither a duration like 24h nor a moment"),
        ({"until": "2030-01-31T09:00:00"}, "until '2030-01-31T09:00:00' has no time zone; add Z"),
        ({"partitions": "0"}, "partitions is '0'; use a whole number from 1 to 10,000."),
        ({"startingOffset": "5"}, "startingOffset is for spark.readStream"),
        ({"url": "memory://"}, "memory:// lives in one process, and Spark reads from others; use"),
        ({"url": "mongodb://u:hunter2@h"}, "'mongodb://u:\\*\\*\\*@h' is not a store that Stem knows"),
    ],
)
def test_impossible_options_are_refused_in_one_sentence(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(StemError, match=f"^{sentence}") as refused:
        read_options({"url": ANY, "table": "tasks", **options})
    assert "hunter2" not in str(refused.value)


def test_only_a_log_can_be_streamed() -> None:
    with pytest.raises(StemError, match=r"tasks cannot be streamed, because only a log can; use spark.read"):
        StemStreamReader({"url": ANY, "table": "tasks"}, StructType())
    with pytest.raises(StemError, match="maxEventsPerTrigger is 'many'; use a whole number"):
        read_options({"url": ANY, "maxEventsPerTrigger": "many"}, is_stream=True)
    with pytest.raises(
        StemError, match="since '24h' counts back from a now that moves with the stream; give it a moment"
    ):
        read_options({"url": ANY, "since": "24h"}, is_stream=True)


def test_a_column_must_be_there_and_of_its_type() -> None:
    with pytest.raises(StemError, match=r"tasks has no column 'stat'; .*; did you mean state\?"):
        StemReader({"url": ANY, "table": "tasks"}, StructType().add("id", "string").add("stat", "string"))
    with pytest.raises(StemError, match=r"tasks.attempt is a int and cannot be read as string"):
        StemReader({"url": ANY, "table": "tasks"}, StructType().add("attempt", "string"))


def test_a_reader_makes_no_store_where_none_is(tmp_path: Path) -> None:
    reader = StemReader({"url": f"sqlite:///{tmp_path}/none.db"}, StructType().add("offset", "string"))
    with pytest.raises(
        StemError, match=r"none.db is not there; correct the url, or, where Spark runs on several machines"
    ):
        reader.partitions()
    assert list(tmp_path.iterdir()) == []


def test_a_duration_counts_back_from_the_stores_now_and_a_moment_is_itself() -> None:
    chosen = read_options({"url": ANY, "since": "24h", "until": "2030-01-31T11:00:00+02:00"}).where(2 * 86400.0)
    assert chosen.since == datetime(1970, 1, 2, tzinfo=UTC)
    assert chosen.until == datetime(2030, 1, 31, 9, tzinfo=UTC)


def test_settings_sent_to_executors_hold_neither_keys_nor_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEM_SIGNING_KEYS", "k1:c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA==")
    monkeypatch.setenv("STEM_BROKER_URL", "redis://u:hunter2@h:1/0")
    sent = read_options({"table": "events"})
    assert sent.settings.broker_url == "redis://u:hunter2@h:1/0"
    assert sent.settings.signing_keys == ""
    assert "hunter2" not in repr(sent)


def test_every_table_has_a_shape_and_every_shape_its_columns() -> None:
    assert list(schemas.SHAPES) == [
        "events",
        "tasks",
        "attempts",
        "dead_letters",
        "heartbeats",
        "schedules",
        "canvases",
    ]
    assert schemas.types(schemas.EVENTS)["enqueued_at"] == "timestamp"
    assert schemas.names(schemas.ATTEMPTS)[-2:] == ["wait_seconds", "run_seconds"]
