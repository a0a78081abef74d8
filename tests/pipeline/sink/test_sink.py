"""A DataFrame becomes tasks: exactly its rows, all at once, whatever Spark does on the way."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from stem.backends import connect
from stem.contracts.staging import Part, Promotion
from stem.contracts.store import Store
from stem.core.lifecycle import EventKind
from stem.core.settings.app import Retention, Settings
from stem.pipeline.lake.delta import Table
from stem.pipeline.sink.compose import Composer
from stem.pipeline.sink.rejects import SHAPE
from stem.pipeline.sink.write_options import write_options
from stem.pipeline.spark.spark_errors import quoted
from support.servers import PostgresServer
from support.stores.calls import all_events, claim, depth
from support.until import until

MANY = 200_000
APP = "support.pipeline.mail_app:app"
KEPT = Retention(events_count=1_000_000)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/stem.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = connect(url, Settings())
    yield opened
    opened.upkeep.close()


def write(frame: DataFrame, url: str, **options: Any) -> None:
    frame.write.format("stem").option("url", url).options(**options).mode("append").save()


def refused(frame: DataFrame, url: str, **options: Any) -> str:
    """The sentence that a write is refused with."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever Spark wraps it in
        write(frame, url, **options)
    said = quoted(caught.value)
    assert said is not None, caught.value
    return str(said)


def mails(spark: SparkSession, rows: int = 10, *, parts: int = 2) -> DataFrame:
    return spark.range(0, rows, 1, parts).selectExpr("concat('user', id) AS to", "id AS copies")


def failing_once(frame: DataFrame, place: Path, *, part: int) -> DataFrame:
    """The frame, one partition of which dies on its first try, behind its last row."""
    mark = str(place / f"died-{part}")

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        if context is not None and context.partitionId() == part and not Path(mark).exists():
            Path(mark).touch()
            raise RuntimeError("the first try dies")

    return frame.mapInArrow(pass_on, frame.schema)


def test_each_row_is_one_task_with_its_columns_as_arguments(spark: SparkSession, store: Store, url: str) -> None:
    write(mails(spark), url, task="mail.send", app=APP, job="mails")
    assert store.staging.promoted("mails") == Promotion(10, 0)
    delivered = claim(store, "mail")
    assert sorted(each.envelope.arguments()["copies"] for each in delivered) == list(range(10))
    sent = next(each.envelope for each in delivered if each.envelope.arguments()["copies"] == 3)
    assert (sent.arguments(), sent.priority, sent.max_retries) == ({"to": "user3", "copies": 3}, 7, 3)
    assert len({each.lease.id for each in delivered}) == 10
    assert [event.kind for event in all_events(store)] == [EventKind.ENQUEUED] * 10


def test_200_000_rows_are_200_000_tasks_though_partitions_die_on_their_first_try(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    frame = failing_once(failing_once(mails(spark, MANY, parts=4), tmp_path, part=1), tmp_path, part=2)
    write(frame, url, task="mail.send", queue="q", job="many")
    assert {each.name for each in tmp_path.iterdir()} >= {"died-1", "died-2"}
    opened = connect(url, Settings(retention=KEPT))
    assert (depth(opened, "q").ready, opened.staging.promoted("many")) == (MANY, Promotion(MANY, 0))
    assert len(all_events(opened, step=20_000)) == MANY
    copies = {each.envelope.arguments()["copies"] for each in claim(opened, "q", limit=MANY)}
    assert copies == set(range(MANY))
    opened.upkeep.close()


@pytest.mark.parametrize("backend", ["redis", "postgres"])
def test_the_same_holds_on_servers(
    spark: SparkSession, backend: str, request: pytest.FixtureRequest, tmp_path: Path, namespace: str
) -> None:
    server = request.getfixturevalue(f"{backend}_server")
    frame = failing_once(mails(spark, 3000, parts=3), tmp_path, part=1)
    write(frame, server.url, namespace=namespace, task="mail.send", queue="q", job="many")
    opened = connect(server.url, Settings(namespace=namespace))
    assert depth(opened, "q").ready == len(all_events(opened)) == 3000
    write(frame, server.url, namespace=namespace, task="mail.send", queue="q", job="many")
    assert depth(opened, "q").ready == 3000
    opened.upkeep.close()


@pytest.mark.parametrize("dies", [False, True])
def test_many_into_postgres_are_copied_once_and_leave_no_staged_table(
    spark: SparkSession, postgres_server: PostgresServer, tmp_path: Path, namespace: str, dies: bool
) -> None:
    rows, url = 60_000, f"{postgres_server.url}&schema={namespace}"
    frame = mails(spark, rows, parts=4)
    if dies:
        frame = failing_once(failing_once(frame, tmp_path, part=1), tmp_path, part=2)
    opened = connect(url, Settings(retention=KEPT))
    for _ in range(2):
        write(frame, url, task="mail.send", queue="q", job="many")
        assert (depth(opened, "q").ready, opened.staging.promoted("many")) == (rows, Promotion(rows, 0))
    with psycopg.connect(postgres_server.url) as conn:
        ((copied,),) = conn.execute(f"SELECT count(*) FROM ONLY {namespace}.messages".encode()).fetchall()
        left = conn.execute("SELECT relname FROM pg_class WHERE relname LIKE 'staged\\_%' AND relkind = 'r'").fetchall()
        assert (copied, left) == (rows, [])
    read = spark.read.format("stem").option("url", url)
    assert read.option("table", "events").load().count() == rows
    tasks = (
        read.option("table", "tasks").load().selectExpr("count(*)", "count(DISTINCT id)", "min(state)", "max(state)")
    )
    assert tasks.collect() == [(rows, rows, "queued", "queued")]
    copies = {each.envelope.arguments()["copies"] for _ in range(6) for each in claim(opened, "q", limit=rows // 6)}
    assert copies == set(range(rows))
    opened.upkeep.close()


def test_an_aborted_write_leaves_nothing(spark: SparkSession, store: Store, url: str, tmp_path: Path) -> None:
    def die(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        if context is not None and context.partitionId() == 1:
            raise RuntimeError("every try dies")

    frame = mails(spark, 400, parts=3)
    with pytest.raises(Exception, match="every try dies"):
        write(frame.mapInArrow(die, frame.schema), url, task="mail.send", job="doomed")
    assert (store.broker.depth(), all_events(store), store.staging.promoted("doomed")) == ({}, [], None)
    assert list((tmp_path / "stem.db-stage").iterdir()) == []
    write(frame, url, task="mail.send", job="doomed")
    assert depth(store).ready == 400, "the same job may try again"


def test_a_job_that_runs_again_adds_nothing(spark: SparkSession, store: Store, url: str) -> None:
    write(mails(spark, 10), url, task="mail.send", job="nightly")
    write(mails(spark, 12), url, task="mail.send", job="nightly")
    assert depth(store).ready == 10
    write(mails(spark, 12), url, task="mail.send")
    assert depth(store).ready == 22, "without a name every write is a job of its own"


def test_controls_come_from_columns_before_options(spark: SparkSession, store: Store, url: str) -> None:
    frame = spark.sql(
        "SELECT * FROM VALUES ('a', 'mail.send', 'fast', 9, timestamp'2100-01-01', map('tenant', 'x')),"
        " ('b', NULL, NULL, NULL, NULL, NULL) AS t(to, task, queue, priority, not_before, headers)"
    )
    write(frame, url, task="mail.other", queue="slow", priority=2, headers='{"by": "option"}')
    (later,) = store.broker.peek("fast", limit=5)
    assert (later.name, later.priority, later.due_at) == ("mail.send", 9, datetime(2100, 1, 1, tzinfo=UTC))
    (ready,) = claim(store, "slow")
    sent = ready.envelope
    assert (sent.name, sent.priority, sent.headers, sent.arguments()) == (
        "mail.other", 2, {"by": "option"}, {"to": "b"},
    )  # fmt: skip


def test_a_column_may_be_an_argument_though_it_has_a_control_s_name(
    spark: SparkSession, store: Store, url: str
) -> None:
    frame = spark.sql("SELECT 'gold' AS queue, 'k1' AS key, 'vip' AS lane")
    write(frame, url, task="door.open", queueColumn="lane")
    (opened,) = claim(store, "vip")
    assert opened.envelope.arguments() == {"queue": "gold", "key": "k1"}


@pytest.mark.parametrize("backend", ["sqlite", "redis", "postgres"])
def test_a_column_that_is_called_key_merges_nothing_unless_the_option_names_it(
    spark: SparkSession, backend: str, request: pytest.FixtureRequest, namespace: str, url: str
) -> None:
    place = url if backend == "sqlite" else request.getfixturevalue(f"{backend}_server").url
    frame = spark.sql("SELECT * FROM VALUES ('k', 1), ('k', 2), (NULL, 3) AS t(key, value)")  # as Kafka's frames are
    write(frame, place, namespace=namespace, task="any", queue="all")
    write(frame.where("key IS NOT NULL"), place, namespace=namespace, task="any", queue="merged", key="key")
    opened = connect(place, Settings(namespace=namespace))
    sent = [each.envelope.arguments() for each in claim(opened, "all")]
    assert sorted(each["value"] for each in sent) == [1, 2, 3] and {each["key"] for each in sent} == {"k", None}
    assert depth(opened, "merged").ready == 1
    opened.upkeep.close()


def test_a_key_makes_rows_of_a_job_one_task(spark: SparkSession, store: Store, url: str) -> None:
    frame = spark.sql("SELECT * FROM VALUES (1, 'a'), (1, 'a'), (2, 'b') AS t(order, to)")
    write(frame, url, task="mail.send", key="order", job="orders")
    assert store.staging.promoted("orders") == Promotion(2, 1)


def test_arguments_may_come_as_one_column(spark: SparkSession, store: Store, url: str) -> None:
    write(spark.sql("""SELECT '{"a": [1, {"b": null}]}' AS args"""), url, task="any", argsColumn="args", queue="j")
    write(spark.sql("SELECT named_struct('a', array(1, 2)) AS args"), url, task="any", argsColumn="args", queue="s")
    assert claim(store, "j")[0].envelope.arguments() == {"a": [1, {"b": None}]}
    assert claim(store, "s")[0].envelope.arguments() == {"a": [1, 2]}


def test_arguments_of_every_type_of_sql_are_json(spark: SparkSession, store: Store, url: str) -> None:
    frame = spark.sql(
        "SELECT 1 AS i, 1.5D AS d, 1.10BD AS dec, true AS b, date'2030-01-31' AS day, timestamp'2030-01-31 09:00:00' AS at,"
        " array('x', NULL) AS list, map('k', 1) AS pairs, named_struct('n', 'é') AS nested, CAST(NULL AS string) AS nothing"
    )
    write(frame, url, task="any")
    assert claim(store)[0].envelope.arguments() == {
        "i": 1, "d": 1.5, "dec": "1.10", "b": True, "day": "2030-01-31", "at": "2030-01-31T09:00:00Z",
        "list": ["x", None], "pairs": {"k": 1}, "nested": {"n": "é"}, "nothing": None,
    }  # fmt: skip


def test_a_variant_becomes_what_its_json_says(spark: SparkSession, store: Store, url: str) -> None:
    frame = spark.sql("""SELECT parse_json('{"a": [1.5, null, "x"]}') AS v, 1 AS n UNION ALL SELECT NULL, 2""")
    write(frame, url, task="any")
    sent = sorted((each.envelope.arguments() for each in claim(store)), key=lambda given: int(given["n"]))
    assert sent == [{"v": {"a": [1.5, None, "x"]}, "n": 1}, {"v": None, "n": 2}]
    nested = spark.sql("SELECT array(parse_json('1')) AS many")
    assert refused(nested, url, task="any").startswith("Column 'many' holds VARIANT inside array<variant>")


BAD = "SELECT * FROM VALUES ('a', 1), ('b', NULL), (NULL, 3), ('d', 4), ('e', 5) AS t(to, copies)"


def test_bad_rows_refuse_the_whole_write_with_the_first_of_them(spark: SparkSession, store: Store, url: str) -> None:
    said = refused(spark.sql(BAD).coalesce(1), url, task="mail.send", app=APP, job="bad")
    assert said.startswith("2 of 5 rows cannot become tasks, and none did; the first is row 1 of partition 0: ")
    assert "`$.copies`" in said and said.endswith("set them aside with onBadRow=reject.")
    assert (store.broker.depth(), store.staging.promoted("bad")) == ({}, None)


def test_bad_rows_are_set_aside_with_their_reasons_once(
    spark: SparkSession, store: Store, url: str, tmp_path: Path
) -> None:
    place = str(tmp_path / "rejects")
    for _ in range(2):
        write(spark.sql(BAD), url, task="mail.send", app=APP, job="bad", onBadRow="reject", rejects=place)
    assert depth(store, "mail").ready == 3
    found = Table(place, SHAPE).frame(spark).orderBy("data").collect()
    assert [(row.job, row.data) for row in found] == [
        ("bad", '{"to":"b","copies":null}'),
        ("bad", '{"to":null,"copies":3}'),
    ]
    assert all("do not fit mail.send" in row.reason for row in found)


def test_an_option_that_is_not_known_is_refused_with_the_nearest(spark: SparkSession, url: str, tmp_path: Path) -> None:
    assert "did you mean onBadRow?" in refused(mails(spark), url, task="mail.send", onbadrows="reject")
    assert not (tmp_path / "stem.db").exists()


def test_only_append_is_meant(spark: SparkSession, url: str) -> None:
    with pytest.raises(Exception, match="Tasks can only be added"):
        mails(spark).write.format("stem").option("url", url).option("task", "t").mode("overwrite").save()


def test_tries_that_speculation_leaves_behind_add_nothing(spark: SparkSession, store: Store, url: str) -> None:
    """One has staged before the try that counts was promoted, another goes on after it."""
    plan = write_options({"url": url, "task": "mail.send", "job": "twice"}, ["to", "copies"])
    rows = pa.RecordBatch.from_pydict({"to": ["user0"], "copies": [0]})
    left = Composer(plan, "twice", 0).compose(rows)[0]
    assert left is not None
    store.staging.stage("twice", "0-slower", left)
    write(mails(spark, 20), url, task="mail.send", job="twice")
    store.staging.stage("twice", "0-slowest", left)
    assert store.staging.promote("twice", [Part("0-slowest", 1)]) == Promotion(20, 0)
    assert depth(store).ready == 20


def test_a_stream_is_one_job_a_batch_and_replays_add_nothing(
    spark: SparkSession, store: Store, url: str, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    mails(spark, 30).write.parquet(str(source))

    def run() -> None:
        query = (
            spark.readStream.schema("to string, copies long").parquet(str(source)).writeStream.format("stem")
            .option("url", url).option("task", "mail.send").option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()

    run()
    assert depth(store).ready == 30
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()
    run()
    assert depth(store).ready == 30
    mails(spark, 5).write.mode("append").parquet(str(source))
    run()
    until(lambda: depth(store).ready == 35)
