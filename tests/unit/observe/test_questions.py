"""The questions of all faces, asked of each store."""

from datetime import timedelta

import msgspec
import pytest

from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, Ending
from stem.core.errors import UsageError
from stem.core.lifecycle import EventKind, State
from stem.core.outcome import Dead, Done
from stem.core.record import TaskError
from stem.observe.dead_letters import letters
from stem.observe.event_log import EventFilter, newest_events, operator_actions
from stem.observe.overview import overview
from stem.observe.schedules import schedules
from stem.observe.task import task, timeline
from stem.observe.tasks import TaskSearch, matching, search
from support.builders import a_push


def fail(store: Store, id: str, message: str, *, name: str = "shop.pay", queue: str = "default") -> None:
    store.broker.push([a_push(id, name=name, queue=queue, args={"order": id})])
    (delivery,) = store.broker.claim([queue], limit=1, lease_seconds=60)
    error = TaskError("ValueError", message, "Traceback")
    store.broker.settle([Ending(delivery.lease, Dead("retries-exhausted", error), 0.1)], worker="w1")


def succeed(store: Store, id: str) -> None:
    import msgspec

    store.broker.push([a_push(id)])
    (delivery,) = store.broker.claim(["default"], limit=1, lease_seconds=60)
    store.broker.settle([Ending(delivery.lease, Done(msgspec.Raw(b"1")), 0.1)], worker="w1")


def test_dead_letters_that_differ_in_numbers_only_are_one_group(store: Store) -> None:
    for i in range(3):
        fail(store, f"a{i}", f"order {i} is too large")
    fail(store, "b", "no such customer")
    fail(store, "c", "order 5 is too large", name="shop.refund")
    found = letters(store)
    assert [(group.name, group.count) for group in found.groups] == [
        ("shop.pay", 3),
        ("shop.pay", 1),
        ("shop.refund", 1),
    ]
    assert found.groups[0].message == "order <n> is too large"
    assert sorted(found.groups[0].ids) == ["a0", "a1", "a2"]
    assert found.groups[0].first_at <= found.groups[0].last_at
    assert found.is_whole and found.count == 5


def test_only_as_many_letters_are_read_as_allowed_and_that_is_said(store: Store) -> None:
    for i in range(4):
        fail(store, f"a{i}", "boom")
    found = letters(store, most=3)
    assert (found.count, found.is_whole) == (3, False)
    assert letters(store, DeadFilter(queue="other")).groups == []


def test_a_search_combines_what_the_store_filters_with_what_is_looked_at(store: Store) -> None:
    fail(store, "a1", "the gateway is away")
    fail(store, "a2", "out of stock")
    succeed(store, "b1")
    assert [r.id for r in search(store, TaskSearch(error="GATEWAY"), limit=10).records] == ["a1"]
    assert [r.id for r in search(store, TaskSearch(text='"a2"'), limit=10).records] == ["a2"]
    assert [r.id for r in search(store, TaskSearch(state=State.SUCCEEDED), limit=10).records] == ["b1"]
    assert [r.id for r in search(store, TaskSearch(id="a1"), limit=10).records] == ["a1"]
    assert search(store, TaskSearch(id="a1", state=State.QUEUED), limit=10).records == []
    assert search(store, TaskSearch(id="nobody"), limit=10).records == []


def test_a_search_by_id_heeds_every_other_filter(store: Store) -> None:
    fail(store, "a1", "the gateway is away")
    (found,) = search(store, TaskSearch(id="a1"), limit=10).records
    at, tick = found.enqueued_at, timedelta(milliseconds=1)
    matching_all = TaskSearch(
        id="a1",
        name="shop.pay",
        queue="default",
        state=State.FAILED,
        error="gateway",
        text="a1",
        since=at,
        until=at + tick,
    )
    assert [each.id for each in search(store, matching_all, limit=10).records] == ["a1"]
    for field, value in {
        "name": "other", "queue": "other", "state": State.QUEUED, "error": "other", "text": "other", "since": at + tick,
        "until": at, "meta": {"tenant": "acme"},
    }.items():  # fmt: skip
        where = msgspec.structs.replace(matching_all, **{field: value})
        assert matching(store, where).records == [], field


def test_matching_returns_every_match_over_several_pages(store: Store) -> None:
    store.broker.push([a_push(f"t{i}") for i in range(1200)])
    found = matching(store, TaskSearch(name="demo.add"))
    assert len({record.id for record in found.records}) == 1200
    assert found.is_whole


def test_a_task_has_its_arguments_timeline_and_relatives(store: Store) -> None:
    fail(store, "parent", "boom")
    store.broker.push([a_push("child", meta={"parentId": "parent", "rootId": "parent"})])
    found = task(store, "parent")
    assert found is not None and found.letter is not None
    assert found.arguments == '{\n  "order": "parent"\n}'
    assert [each.id for each in found.lineage.children] == ["child"]
    told = timeline(store, found.record)
    assert [event.kind for event in told.events] == ["enqueued", "started", "failed", "dead-lettered"]
    assert told.is_whole
    child = task(store, "child")
    assert child is not None and (child.lineage.parent, child.lineage.root) == ("parent", None)
    assert task(store, "nobody") is None


def test_a_call_that_succeeded_has_no_arguments_any_more(store: Store) -> None:
    succeed(store, "a")
    found = task(store, "a")
    assert found is not None and found.arguments is None and found.result == "1"


def test_the_newest_events_come_first_and_can_be_filtered(store: Store) -> None:
    fail(store, "a", "boom")
    succeed(store, "b")
    kinds = [event.kind for event in newest_events(store, EventFilter(), limit=3)]
    assert kinds == ["succeeded", "started", "enqueued"]
    only = newest_events(store, EventFilter(kind="failed"), limit=10)
    assert [event.task_id for event in only] == ["a"]
    assert newest_events(store, EventFilter(name="nothing"), limit=10) == []


def test_what_operators_did_is_kept_in_order(store: Store) -> None:
    for what in ("pause", "resume"):
        store.events.note(EventKind.OPERATOR_ACTED, worker="", data={"who": "ada", "what": what})
    succeed(store, "a")
    assert [event.data["what"] for event in operator_actions(store)] == ["resume", "pause"]


def test_an_overview_says_what_needs_attention_and_failures_first(store: Store) -> None:
    fail(store, "a", "boom")
    store.broker.push([a_push("waiting", queue="mail")])
    found = overview(store, store.revokes, seconds=3600)
    assert (found.ready, found.dead) == (1, 1)
    assert [(concern.level, concern.kind) for concern in found.concerns] == [
        ("failure", "queue"),
        ("warning", "letters"),
    ]
    assert "no worker serves it" in found.concerns[0].text


def test_an_empty_store_has_an_empty_overview(store: Store) -> None:
    found = overview(store, store.revokes, seconds=86400)
    assert (found.queues, found.workers, found.tasks, found.concerns) == ([], [], [], [])
    assert schedules(store).views == []


def test_an_unknown_filter_of_a_page_is_refused() -> None:
    from stem.dashboard.searching import search_of

    far = "0001-01-01T00:00:00+10:00"
    for field, text in (("state", "lost"), ("since", "soon"), ("since", far), ("meta", "tenant")):
        with pytest.raises(UsageError):
            search_of({field: text}, 0.0)
    assert search_of({"meta": "tenant=acme size=3"}, 0.0).meta == {"tenant": "acme", "size": 3}


def test_a_period_is_merged_to_one_row_per_step_and_read_anew_only_when_it_may_have_changed(store: Store) -> None:
    from datetime import UTC, datetime, timedelta

    from stem.contracts.rollups import Measures, MinuteRow
    from stem.dashboard.row_cache import RowCache
    from stem.observe.rates import period, read_rows

    span = period(store.upkeep.now(), 6 * 3600)
    last = datetime.fromtimestamp(store.upkeep.now() // 300 * 300, UTC)
    for worker in ("w1", "w2"):
        minutes = [last - timedelta(minutes=10), last - timedelta(minutes=9)]
        measures = Measures({"succeeded": 2})
        store.rollups.put(MinuteRow(minute=at, name="a", queue="q", worker=worker, measures=measures) for at in minutes)
    (row,) = read_rows(store, span)
    assert (row.minute, row.worker, row.measures.sums["succeeded"]) == (last - timedelta(minutes=10), None, 8)
    cache = RowCache()
    assert cache.read(store, span) == [row]
    store.rollups.put([MinuteRow(minute=last, name="b", measures=Measures({"succeeded": 1}))])
    assert cache.read(store, span) == [row]
    assert len(read_rows(store, span)) == 2
