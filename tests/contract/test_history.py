"""The past in bulk: slices that are together exactly what a plain listing gives, whoever reads which."""

import pickle
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from conftest import OpenStore
from stem.contracts.history import ANY, COLUMNS, HistoryFilter, Relation, Slice
from stem.contracts.store import Store
from stem.core.delivery import Report
from stem.core.errors import UsageError
from stem.core.lifecycle import EventKind, State
from stem.core.record import TaskFilter
from stem.core.settings.app import Retention
from support.builders import a_push, cancelled, dead, done, pushes, requeue, retry
from support.stores.calls import WORKER, all_events, claim, claim_one
from support.stores.snapshot import without_moments
from support.until import until

Row = tuple[Any, ...]


def rows(store: Store, pieces: Sequence[Slice], columns: Sequence[str] | None = None) -> list[Row]:
    """Of each slice the rows, as any process may read them."""
    found: list[Row] = []
    for piece in pieces:
        sent = msgspec.json.decode(msgspec.json.encode(pickle.loads(pickle.dumps(piece))), type=Slice)
        for chunk in store.history.chunks(sent, columns or COLUMNS[piece.relation]):
            found += zip(*chunk, strict=True)
    return found


def read(store: Store, relation: Relation, where: HistoryFilter = ANY, count: int = 3) -> list[Row]:
    return rows(store, store.history.slices(relation, where, count=count))


def listed_events(store: Store) -> list[Row]:
    return [
        (
            e.offset, e.kind.value, micros(e.at), e.task_id, e.name, e.queue, e.attempt, e.worker, micros(e.enqueued_at),
            micros(e.started_at), e.data,
        )
        for e in all_events(store)
    ]  # fmt: skip


def listed_tasks(store: Store) -> list[Row]:
    return [
        (
            r.id, r.name, r.queue, r.state.value, r.attempt, r.priority, r.worker,
            None if r.error is None else msgspec.to_builtins(r.error), micros(r.enqueued_at), micros(r.started_at),
            micros(r.finished_at), micros(r.heartbeat_at), micros(r.updated_at), without_moments(r.meta), r.result(),
        )
        for r in reversed(store.results.page(TaskFilter(), limit=1000).items)
    ]  # fmt: skip


def micros(moment: Any) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1_000_000)


def told(relation: Relation, found: list[Row]) -> list[Row]:
    """With the JSON read, for stores may write it differently."""
    texts = [
        COLUMNS[relation].index(name) for name in ("error", "meta", "payload", "data") if name in COLUMNS[relation]
    ]
    return [
        tuple(msgspec.json.decode(v) if i in texts and v is not None else v for i, v in enumerate(row)) for row in found
    ]


def live(store: Store) -> None:
    """A little of everything that can happen to tasks."""
    store.broker.push([a_push(f"t{n}", meta={"n": n, "é": "ü"} if n % 2 else None) for n in range(7)])
    store.broker.push([a_push("other", queue="mail", name="mail.send", priority=9), a_push("later", delay=3600)])
    a, b, c, d, e, f, g = claim(store, limit=7)
    store.broker.start([a.lease, b.lease, g.lease], worker="w1")
    store.broker.report([Report(g.lease, {"percent": 40}), Report(g.lease)], worker="w1")
    store.broker.settle(
        [
            done(a, {"sum": 3}),
            dead(b, ran=0.4),
            cancelled(c),
            retry(d, 3600, ran=0.2),
            requeue(e),
            done(f, ran=0.5, meta={"x": 1}),
        ],
        worker="w2",
    )
    store.events.note(EventKind.WORKER_SCALED, worker="w1", data={"to": 4})


def test_an_empty_store_has_no_slices(store: Store) -> None:
    assert store.history.slices("events", count=4) == []
    assert store.history.slices("tasks", count=4) == []
    assert store.history.advance(None, limit=10) is None


@pytest.mark.parametrize("count", [1, 2, 5, 100])
def test_slices_together_are_the_plain_listing(store: Store, count: int) -> None:
    live(store)
    assert told("events", read(store, "events", count=count)) == listed_events(store)
    assert told("tasks", read(store, "tasks", count=count)) == listed_tasks(store)
    for relation in COLUMNS:
        assert 1 <= len(store.history.slices(relation, count=count)) <= count


def test_each_column_is_what_it_is_among_all(store: Store) -> None:
    live(store)
    for relation, columns in COLUMNS.items():
        pieces = store.history.slices(relation, count=2)
        whole = rows(store, pieces)
        for i, column in enumerate(columns):
            assert rows(store, pieces, [column]) == [(row[i],) for row in whole]
        assert rows(store, pieces, columns[::-1]) == [row[::-1] for row in whole]
        with pytest.raises(UsageError, match="no column 'nonsense'"):
            list(store.history.chunks(pieces[0], ["nonsense"]))


def test_rows_written_after_the_cut_are_in_no_slice(store: Store) -> None:
    store.broker.push(pushes("a", "b", "c"))
    events, tasks = store.history.slices("events", count=2), store.history.slices("tasks", count=2)
    store.broker.push(pushes("d", "e"))
    store.broker.settle([done(claim_one(store), 5)], worker=WORKER)
    assert [row[3] for row in rows(store, events)] == ["a", "b", "c"]
    assert [(row[0], row[3]) for row in rows(store, tasks)] == [("a", "succeeded"), ("b", "queued"), ("c", "queued")]


def test_a_stretch_of_the_log_is_cut_alone(store: Store) -> None:
    store.broker.push([a_push(f"t{n}") for n in range(300)])
    store.broker.push(pushes("late"))
    # A server that does something of its own shows the newest a little later; what it has shown it shows for good.
    offsets = until(lambda: read_offsets(store, 301), seconds=60)
    for after, upto in ((0, 300), (7, 250), (199, 201), (250, 251)):
        pieces = store.history.slices("events", count=4, after=offsets[after], upto=offsets[upto])
        assert [row[0] for row in rows(store, pieces)] == offsets[after + 1 : upto + 1]
        assert len({(piece.after, piece.upto) for piece in pieces}) == len(pieces) == min(4, upto - after)
    assert store.history.slices("events", count=4, after=offsets[-1]) == []


def read_offsets(store: Store, count: int) -> list[str] | None:
    """None while there are not as many."""
    offsets = [event.offset for event in store.events.read(None, limit=count)]
    return offsets if len(offsets) == count else None


def test_advance_goes_so_many_places_and_no_further_than_the_head(store: Store) -> None:
    store.broker.push([a_push(f"t{n}") for n in range(12)])
    offsets = until(lambda: read_offsets(store, 12), seconds=60)
    assert store.history.advance(None, limit=5) == offsets[4]
    assert store.history.advance(offsets[4], limit=5) == offsets[9]
    assert store.history.advance(offsets[9], limit=5) == offsets[-1] == store.events.head()
    assert store.history.advance(offsets[-1], limit=5) == offsets[-1]


def test_a_log_that_was_pruned_begins_where_it_is_kept(open_store: OpenStore) -> None:
    store = open_store(retention=Retention(events_count=5))
    store.broker.push([a_push(f"t{n}") for n in range(20)])
    while store.upkeep.prune():
        pass
    kept = [event.offset for event in all_events(store)]
    assert len(kept) == 5
    assert [row[0] for row in read(store, "events")] == kept
    assert store.history.advance(None, limit=2) == kept[1]


def test_a_reader_hears_how_many_events_were_dropped_before_it_came(open_store: OpenStore) -> None:
    store = open_store(retention=Retention(events_count=5))
    store.broker.push([a_push(f"t{n}") for n in range(20)])
    offsets = [event.offset for event in all_events(store)]
    assert store.history.missed(offsets[2]) == 0
    while store.upkeep.prune():
        pass
    assert store.history.missed(offsets[2]) in (12, None)  # a store that does not count says that there may be some
    assert store.history.missed(offsets[-5]) == store.history.missed(offsets[-1]) == 0


def test_filters_choose_what_a_listing_would(store: Store) -> None:
    live(store)
    tasks = listed_tasks(store)
    for where, expected in (
        (HistoryFilter(queue="mail"), [row for row in tasks if row[2] == "mail"]),
        (
            HistoryFilter(name="demo.add", state=State.QUEUED),
            [r for r in tasks if r[1] == "demo.add" and r[3] == "queued"],
        ),
        (HistoryFilter(state=State.FAILED), [row for row in tasks if row[3] == "failed"]),
        (HistoryFilter(queue="nobody"), []),
    ):
        assert told("tasks", read(store, "tasks", where)) == expected
    events = listed_events(store)
    endings = (EventKind.SUCCEEDED, EventKind.FAILED)
    for where, expected in (
        (HistoryFilter(kinds=endings), [row for row in events if row[1] in endings]),
        (HistoryFilter(kinds=endings, queue="mail"), []),
        (HistoryFilter(name="mail.send"), [row for row in events if row[4] == "mail.send"]),
    ):
        assert told("events", read(store, "events", where)) == expected


def test_since_and_until_bound_events_by_their_moment_and_tasks_by_their_arrival(store: Store) -> None:
    store.broker.push(pushes("a"))
    store.broker.push(pushes("b"))
    a, b = store.results.get(["a"])["a"].enqueued_at, store.results.get(["b"])["b"].enqueued_at
    for where, expected in (
        (HistoryFilter(since=b), ["b"]),
        (HistoryFilter(until=b), ["a"]),
        (HistoryFilter(since=a, until=b + timedelta(seconds=1)), ["a", "b"]),
        (HistoryFilter(since=b + timedelta(seconds=1)), []),
    ):
        assert [row[0] for row in read(store, "tasks", where)] == expected
        assert [row[3] for row in read(store, "events", where)] == expected


def test_two_namespaces_are_read_apart(open_store: OpenStore, namespace: str) -> None:
    here, there = open_store(), open_store(f"{namespace}-2")
    here.broker.push(pushes("a", "b"))
    there.broker.push(pushes("c"))
    here.broker.push(pushes("d"))
    for each, expected in ((here, ["a", "b", "d"]), (there, ["c"])):
        assert [row[3] for row in read(each, "events")] == expected
        assert [row[0] for row in read(each, "tasks")] == expected
