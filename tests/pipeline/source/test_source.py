"""spark.read over a store: its tables whole, cut, chosen from and pruned, on each store that Spark can reach."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from stem import Settings, Stem, group
from stem.contracts.schedules import ScheduleEntry
from stem.contracts.store import Store
from stem.core.decisions.settle import Policy, settle
from stem.core.delivery import DeadFilter, Ending
from stem.core.heartbeat import Heartbeat
from stem.core.outcome import Died
from stem.core.record import TaskError, TaskFilter, TaskRecord
from stem.pipeline.attempts import attempts_of
from stem.runtime.keys import Keyring
from stem.scheduler.entries import EntryWriter
from stem.testing import run_pending
from support.builders import a_push, cancelled, dead, done, requeue, retry
from support.servers import PostgresServer
from support.stores.calls import WORKER, all_events, claim, claim_one, expire, record
from support.until import until

Read = Callable[..., DataFrame]
one_store = pytest.mark.parametrize("durable_url", ["sqlite"], indirect=True)  # what the stores have no part in


@pytest.fixture
def read(spark: SparkSession, durable_url: str, namespace: str) -> Read:
    def load(table: str = "events", schema: str | None = None, **options: str) -> DataFrame:
        reader = spark.read.format("stem").options(url=durable_url, namespace=namespace, table=table, **options)
        return (reader.schema(schema) if schema else reader).load()

    return load


def live(store: Store) -> None:
    """A little of every way in which an attempt can end."""
    store.broker.push([a_push(f"t{n}", meta={"n": n}, args={"n": n}) for n in range(9)])
    store.broker.push([a_push("other", queue="mail", name="mail.send"), a_push("purged", queue="old")])
    store.broker.purge("old")
    a, b, c, d, e, f, g, h, i = claim(store, limit=9)
    fallen = settle(Died(-9), Policy(), attempt=0, deaths=0, random_fraction=0.0)
    store.broker.start([a.lease], worker="w1")
    store.broker.settle(
        [done(a, {"sum": 3}), dead(b, ran=0.4), cancelled(c, ran=0.1), cancelled(d), retry(e, 3600, ran=0.2)],
        worker="w2",
    )
    store.broker.settle([requeue(f), requeue(g, ran=0.1), Ending(h.lease, fallen, 0.3)], worker="w2")
    store.broker.settle([done(i, ran=0.5)], worker="w3")
    lost = claim_one(store, "mail", lease=0.02)
    store.broker.start([lost.lease], worker="w4")
    expire(store, lost)
    store.heartbeats.beat(a_heartbeat(), ttl_seconds=60)


def derived(events: DataFrame) -> list[dict[str, Any]]:
    """The attempts that the lake makes of these events."""
    attempts = events.sparkSession.createDataFrame(attempts_of(events.toArrow()))
    return [row.asDict() for row in attempts.collect()]


def a_heartbeat() -> Heartbeat:
    return Heartbeat(
        worker_id="w1",
        namespace="x",
        host="h",
        pid=7,
        uptime_seconds=1.0,
        concurrency=4,
        in_flight=2,
        queues=["default"],
    )


def test_events_and_tasks_are_what_the_store_lists(durable_store: Store, read: Read) -> None:
    live(durable_store)
    events = {row.offset: row for row in read("events", partitions="3").collect()}
    told = all_events(durable_store)
    assert list(events) == [event.offset for event in told]
    for event in told:
        row = events[event.offset]
        error = event.data.get("error", {})
        assert (row.kind, row.task_id, row.attempt, row.worker) == (
            event.kind,
            event.task_id,
            event.attempt,
            event.worker,
        )
        assert (row.error_type, row.error_message) == (error.get("type"), error.get("message"))
        assert (seconds(row.at), seconds(row.started_at)) == (seconds(event.at), seconds(event.started_at))
        assert msgspec.json.decode(row.data) == event.data
    tasks = {row.id: row for row in read("tasks", partitions="2").collect()}
    records = durable_store.results.page(TaskFilter(), limit=100).items
    assert {id: _known(row) for id, row in tasks.items()} == {record.id: _told(record) for record in records}


ODD = "'q' \"x\", \n\t\x1e\x1f\\ 😀 é {}"


@pytest.mark.parametrize(
    ("durable_url", "odd"),
    [
        ("sqlite", ODD), ("sqlite", "a␟b"), ("sqlite", "␟"), ("sqlite", "␀"), ("redis", f"{ODD}␟"), ("postgres", f"{ODD}␟"),
    ],
    indirect=["durable_url"],
)  # fmt: skip
def test_no_text_is_too_odd_and_no_number_too_large_to_be_read(durable_store: Store, read: Read, odd: str) -> None:
    durable_store.broker.push([a_push("plain"), *(a_push(f"t{n}", name=odd, meta={odd: odd}) for n in range(2))])
    plain, good, bad = claim(durable_store)
    durable_store.broker.settle([done(plain, "")], worker="w")
    durable_store.broker.settle(
        [done(good, [odd, 2**62, -1e300, None]), dead(bad, error=TaskError(odd, odd))], worker=odd
    )
    durable_store.broker.push([a_push("waits")])
    rows = {row.id: _known(row) for row in read("tasks").collect()}
    records = durable_store.results.page(TaskFilter(), limit=100).items
    assert rows == {record.id: _told(record) for record in records}
    assert {row.id for row in read("tasks", task=odd).collect()} == {"t0", "t1"}


@one_store
def test_attempts_are_those_that_the_lake_makes_of_the_events(durable_store: Store, read: Read) -> None:
    live(durable_store)
    rows = read("attempts").orderBy("offset").collect()
    assert [row.asDict() for row in rows] == derived(read("events").orderBy("offset"))
    assert sorted(row.outcome for row in rows) == [
        "cancelled", "failed", "interrupted", "lost", "lost", "retried", "succeeded", "succeeded",
    ]  # fmt: skip
    assert {row.outcome: round(row.run_seconds, 3) for row in rows}["retried"] == 0.2
    failed = next(row for row in rows if row.outcome == "failed")
    assert (failed.reason, failed.error_type, len(failed.fingerprint)) == ("retries-exhausted", "ValueError", 12)


@one_store
def test_a_delayed_task_waits_from_its_due_time_and_counts_for_its_tenant(durable_store: Store, read: Read) -> None:
    sent = a_push("a", delay=0.5)
    durable_store.broker.push([sent])
    due = record(durable_store, "a").enqueued_at + timedelta(seconds=0.4)
    delivery = until(lambda: claim(durable_store))[0]
    facts = {"tenant": "acme", "dueAt": due.isoformat()}
    durable_store.broker.settle([msgspec.structs.replace(done(delivery, ran=0.0), facts=facts)], worker=WORKER)
    (row,) = read("attempts").collect()
    assert [row.asDict()] == derived(read("events"))
    assert row.tenant == "acme" and row.wait_seconds == pytest.approx(
        (row.started_at - due.replace(tzinfo=None)).total_seconds()
    )
    assert row.wait_seconds < (row.started_at - row.enqueued_at).total_seconds() - 0.3


@one_store
def test_dead_letters_and_heartbeats_are_read_whole(durable_store: Store, read: Read) -> None:
    live(durable_store)
    (letter,) = durable_store.deadletters.page(DeadFilter(), limit=10).items
    (row,) = read("dead_letters").collect()
    assert (row.id, row.reason, row.error_type, msgspec.json.decode(row.args)) == (
        letter.id, letter.reason, "ValueError", {"n": 1},
    )  # fmt: skip
    assert seconds(row.dead_at) == seconds(letter.dead_at)
    assert read("dead_letters", queue="mail").count() == 0
    (beat,) = read("heartbeats").collect()
    assert (beat.worker, beat.pid, beat.concurrency, beat.in_flight) == ("w1", 7, 4, 2)
    assert read("schedules").collect() == []
    entry = ScheduleEntry(id="nightly", task="report", spec="0 2 * * *", args={"a": 1}, options={"queue": "mail"})
    EntryWriter(durable_store, Keyring({})).save(entry, None)
    found = durable_store.schedules.get("nightly")
    (schedule,) = read("schedules").collect()
    assert (schedule.id, schedule.name, schedule.queue, schedule.args) == ("nightly", "report", "mail", '{"a":1}')
    assert found is not None and found.state.instant is not None
    assert seconds(schedule.next_run_at) == seconds(found.state.instant) and schedule.last_run_at is None


@one_store
def test_canvases_are_read_with_the_states_of_their_tasks(durable_url: str, namespace: str, read: Read) -> None:
    app = Stem(settings=Settings(broker_url=durable_url, namespace=namespace))
    one = app.task(name="one")(lambda: 1)
    total = app.task(name="total")(lambda values: sum(values))
    with app:
        assert app.store and read("canvases").collect() == []
        canvas = (group(one.s(), one.s()) | total.s()).named("sums").submit()
        assert run_pending(app, limit=2) == 2
        (row,) = read("canvases").collect()
        assert (row.id, row.name, row.state, row.tasks, row.succeeded) == (canvas.id, "sums", "queued", 3, 2)
        assert run_pending(app) == 1
    (row,) = read("canvases").collect()
    assert (row.state, row.succeeded, row.failed, row.finished_at is None) == ("succeeded", 3, 0, False)
    assert "total" in row.shape


@one_store
def test_pruned_filtered_and_empty_tables_are_exact(durable_store: Store, read: Read) -> None:
    assert read("tasks").collect() == read("events").collect() == []
    live(durable_store)
    slim = read("tasks", "state string, id string", queue="default", partitions="5")
    assert slim.columns == ["state", "id"]
    assert {row.id for row in slim.collect()} == {f"t{n}" for n in range(9)}
    assert slim.where("state = 'succeeded'").count() == 2
    assert slim.count() == 9  # the filter of the line above stays with it
    assert {row.id for row in read("tasks", state="failed").collect()} == {"t1"}
    assert read("tasks", task="mail.send").count() == 1
    assert read("events", until="24h").count() == read("attempts", until="24h").count() == 0
    assert read("events", since="24h").count() == len(all_events(durable_store))
    (total,) = read("attempts", "task_id string, run_seconds double").agg({"run_seconds": "sum"}).collect()
    assert total[0] > 1.5


@one_store
def test_a_refusal_reaches_the_caller_as_a_sentence(durable_store: Store, read: Read) -> None:
    with pytest.raises(PySparkException, match=r"'quue' is not an option of a read; .* did you mean queue\?"):
        read("tasks", quue="a")
    with pytest.raises(PySparkException, match=r"tasks has no column 'stat'; .* did you mean state\?"):
        read("tasks", "id string, stat string").count()


def test_neither_plan_nor_reader_shows_the_password(
    spark: SparkSession, postgres_server: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    url = postgres_server.url.replace("postgres:@", "postgres:hunter2@")
    frame = spark.read.format("stem").options(url=url, namespace="plan", table="tasks").load()
    assert frame.count() == 0
    frame.explain("extended")
    shown = capsys.readouterr().out + str(frame) + frame._jdf.queryExecution().toString()
    assert "RelationV2" in shown and "hunter2" not in shown


def seconds(moment: Any) -> float | None:
    return None if moment is None else moment.timestamp()


def _known(row: Row) -> tuple[Any, ...]:
    return (
        row.name, row.queue, row.state, row.attempt, row.priority, row.worker, row.error_type, row.error_message,
        seconds(row.enqueued_at), seconds(row.started_at), seconds(row.finished_at), seconds(row.updated_at),
        msgspec.json.decode(row.meta), None if row.payload is None else msgspec.json.decode(row.payload),
    )  # fmt: skip


def _told(record: TaskRecord) -> tuple[Any, ...]:
    return (
        record.name, record.queue, record.state.value, record.attempt, record.priority, record.worker,
        record.error and record.error.type, record.error and record.error.message, seconds(record.enqueued_at),
        seconds(record.started_at), seconds(record.finished_at), seconds(record.updated_at), record.meta, record.result(),
    )  # fmt: skip
