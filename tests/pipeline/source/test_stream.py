"""spark.readStream over a store: each event once, so many at a time, from where the last query stopped."""

from pathlib import Path

import psycopg
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.settings.app import Retention, Settings
from support.builders import a_push, done, retry
from support.servers import PostgresServer
from support.stores.calls import all_events, claim, claim_one
from support.until import until


class Stream:
    """A query that remembers which events came in which batch."""

    def __init__(self, spark: SparkSession, url: str, namespace: str, place: Path) -> None:
        self.spark, self.url, self.namespace, self.place = spark, url, namespace, place
        self.batches: list[list[str]] = []

    def run(self, **options: str) -> StreamingQuery:
        """To the end of what there is now."""
        query = self.start(is_bounded=True, **options)
        assert query.awaitTermination(120)
        return query

    def start(self, *, is_bounded: bool = False, **options: str) -> StreamingQuery:
        events = self.spark.readStream.format("stem").options(url=self.url, namespace=self.namespace, **options)
        writer = events.schema("offset string").load().writeStream.foreachBatch(self._keep)
        triggered = writer.trigger(availableNow=True) if is_bounded else writer.trigger(processingTime="0 seconds")
        return triggered.option("checkpointLocation", str(self.place)).start()

    def _keep(self, frame: DataFrame, _: int) -> None:
        self.batches.append([row.offset for row in frame.collect()])

    @property
    def seen(self) -> list[str]:
        return [offset for batch in self.batches for offset in batch]


@pytest.fixture
def stream(spark: SparkSession, durable_url: str, namespace: str, tmp_path: Path) -> Stream:
    return Stream(spark, durable_url, namespace, tmp_path / "checkpoint")


def offsets(store: Store) -> list[str]:
    return [event.offset for event in all_events(store)]


def test_a_stream_takes_so_many_at_a_time_ends_and_goes_on_where_it_was(durable_store: Store, stream: Stream) -> None:
    durable_store.broker.push([a_push(f"a{n}") for n in range(20)])
    first = offsets(durable_store)
    progress = stream.run(maxEventsPerTrigger="8", partitions="3").lastProgress
    assert [len(batch) for batch in stream.batches] == [8, 8, 4]
    assert sorted(stream.seen) == sorted(first)
    assert progress is not None and progress.sources[0].endOffset == f'{{"offset": "{first[-1]}"}}'
    durable_store.broker.push([a_push(f"b{n}") for n in range(5)])
    durable_store.broker.settle([done(claim_one(durable_store), ran=0.1)], worker="w")
    stream.run(maxEventsPerTrigger="8")
    assert sorted(stream.seen) == sorted(offsets(durable_store))
    assert len(stream.seen) == 27


@pytest.mark.parametrize("durable_url", ["sqlite"], indirect=True)
def test_a_batch_that_was_cut_off_is_done_over_as_it_was(durable_store: Store, stream: Stream) -> None:
    durable_store.broker.push([a_push(f"a{n}") for n in range(12)])
    stream.run(maxEventsPerTrigger="8")
    for trace in (stream.place / "commits").glob("*1*"):  # as if the driver had died in its second batch
        trace.unlink()
    durable_store.broker.push([a_push("later")])
    stream.run(maxEventsPerTrigger="8")
    assert [len(batch) for batch in stream.batches] == [8, 4, 4, 1]
    assert stream.batches[2] == stream.batches[1]


@pytest.mark.parametrize("durable_url", ["sqlite"], indirect=True)
def test_a_query_that_runs_on_sees_what_is_written_meanwhile(durable_store: Store, stream: Stream) -> None:
    durable_store.broker.push([a_push("before")])
    query = stream.start(startingOffset="latest")
    until(lambda: query.lastProgress is not None, seconds=60)
    durable_store.broker.push([a_push("a"), a_push("b")])
    until(lambda: len(stream.seen) == 2, seconds=60)
    durable_store.broker.push([a_push("c")])
    until(lambda: len(stream.seen) == 3, seconds=60)
    query.stop()
    assert stream.seen == offsets(durable_store)[1:]


@pytest.mark.parametrize("durable_url", ["sqlite"], indirect=True)
def test_attempts_stream_too_and_an_offset_may_be_where_to_start(durable_store: Store, stream: Stream) -> None:
    durable_store.broker.push([a_push("a"), a_push("b")])
    a, b = claim(durable_store)
    durable_store.broker.settle([done(a, ran=0.1), retry(b, 60, ran=0.1)], worker="w")
    told = all_events(durable_store)
    ended = [event.offset for event in told if event.kind in ("succeeded", "retried")]
    stream.run(table="attempts", startingOffset=ended[0])
    assert stream.seen == ended[1:]


@pytest.mark.parametrize("durable_url", ["sqlite"], indirect=True)
def test_an_offset_of_nowhere_is_refused(durable_store: Store, stream: Stream) -> None:
    query = stream.start(is_bounded=True, startingOffset="there")
    with pytest.raises(
        StreamingQueryException, match="startingOffset 'there' is not an offset of this store; use earliest"
    ):
        query.awaitTermination(60)


def test_a_transaction_that_commits_late_is_not_skipped(
    spark: SparkSession, postgres_server: PostgresServer, namespace: str, tmp_path: Path
) -> None:
    store = connect(postgres_server.url, Settings(namespace=namespace))
    stream = Stream(spark, postgres_server.url, namespace, tmp_path / "checkpoint")
    store.broker.push([a_push("first")])
    with psycopg.connect(postgres_server.url) as slow:
        store.broker.push([a_push("slow")], connection=slow)
        store.broker.push([a_push("quick")])
        stream.run()
        assert len(stream.seen) == 1
        slow.commit()
    stream.run()
    assert stream.seen == offsets(store) and len(stream.seen) == 3
    store.upkeep.close()


def test_events_that_retention_dropped_before_a_stream_read_them_are_told_or_left_out(
    durable_url: str, namespace: str, durable_store: Store, stream: Stream
) -> None:
    durable_store.broker.push([a_push(f"a{n}") for n in range(5)])
    stream.run()
    durable_store.broker.push([a_push(f"b{n}") for n in range(40)])
    pruning = connect(durable_url, Settings(namespace=namespace, retention=Retention(events_count=10)))
    while pruning.upkeep.prune():
        continue
    pruning.upkeep.close()
    kept = offsets(durable_store)
    assert 0 < len(kept) < 40
    with pytest.raises(StreamingQueryException, match=r"dropped by the store's retention.*failOnDataLoss"):
        stream.run()
    stream.run(failOnDataLoss="false")
    assert sorted(stream.seen[5:]) == sorted(kept)


@pytest.mark.parametrize("durable_url", ["sqlite"], indirect=True)
def test_columns_whose_names_are_words_of_sql_have_others(
    spark: SparkSession, durable_url: str, namespace: str, durable_store: Store
) -> None:
    durable_store.broker.push([a_push("a")])
    wanted = "offset string, event_offset string, at timestamp, happened_at timestamp"
    read = spark.read.format("stem").options(url=durable_url, namespace=namespace).schema(wanted)
    (row,) = read.load().collect()
    assert row.event_offset == row.offset == offsets(durable_store)[0] and row.happened_at == row["at"]
