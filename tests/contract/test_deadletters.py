"""Dead letters: read them, replay them, drop them."""

from datetime import datetime, timedelta
from functools import partial
from itertools import count

from conftest import OpenStore
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter
from stem.core.lifecycle import EventKind, State
from support.background import together
from support.builders import BOOM, a_push, dead, done, requeue, retry
from support.stores.calls import (
    WORKER,
    claim,
    claim_one,
    dead_ids,
    depth,
    fail_for_good,
    ids,
    kinds_of,
    let_time_pass,
    push_and_claim,
    record,
)
from support.until import until


def test_a_letter_makes_the_round_trip(store: Store) -> None:
    sent = a_push("a", args={"x": 1}, queue="mail", name="demo.send", meta={"tenant": "t"})
    delivery = push_and_claim(store, sent)
    store.broker.settle([retry(delivery)], worker=WORKER)
    store.broker.settle([dead(claim_one(store, "mail"), "retries-exhausted", note={"n": 1})], worker=WORKER)
    letter = store.deadletters.get("a")
    assert letter is not None
    assert (letter.id, letter.name, letter.queue, letter.attempt) == ("a", "demo.send", "mail", 1)
    assert (letter.reason, letter.error, letter.meta) == ("retries-exhausted", BOOM, {"n": 1})
    assert letter.dead_at == record(store, "a").finished_at
    assert (letter.envelope.arguments(), letter.envelope.attempt) == ({"x": 1}, 1)
    assert store.deadletters.page(DeadFilter(), limit=10).items == [letter]
    assert store.deadletters.get("unknown") is None


def test_letters_are_listed_newest_first_and_paged_without_repeats(store: Store) -> None:
    fail_for_good(store, *"abcdefg")
    seen, cursor, pages = [], None, 0
    while True:
        page = store.deadletters.page(DeadFilter(), limit=3, cursor=cursor)
        seen += ids(page.items)
        pages += 1
        fail_for_good(store, f"new-{pages}")
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == list("gfedcba")
    assert dead_ids(store)[:3] == ["new-3", "new-2", "new-1"]


def test_dead_letters_of_one_batch_are_listed_newest_first(store: Store) -> None:
    store.broker.push([a_push(id) for id in "abcde"])
    store.broker.settle([dead(each) for each in claim(store)], worker=WORKER)
    assert dead_ids(store) == list("edcba")
    page = store.deadletters.page(DeadFilter(), limit=2)
    assert ids(page.items) == ["e", "d"]
    page = store.deadletters.page(DeadFilter(), limit=3, cursor=page.cursor)
    assert (ids(page.items), page.cursor) == (["c", "b", "a"], None)


def test_letters_are_found_by_id_queue_name_reason_and_time(store: Store) -> None:
    fail_for_good(store, "a", "b")
    fail_for_good(store, "c", queue="mail", reason="crash-loop")
    store.broker.settle([dead(push_and_claim(store, a_push("d", name="demo.mul")))], worker=WORKER)
    b, c = store.deadletters.get("b"), store.deadletters.get("c")
    assert b is not None and c is not None
    assert dead_ids(store, DeadFilter(ids=("a", "c", "nobody"))) == ["c", "a"]
    assert dead_ids(store, DeadFilter(ids=())) == []
    assert dead_ids(store, DeadFilter(queue="mail")) == ["c"]
    assert dead_ids(store, DeadFilter(name="demo.mul")) == ["d"]
    assert dead_ids(store, DeadFilter(reason="crash-loop")) == ["c"]
    assert dead_ids(store, DeadFilter(queue="default", name="demo.add")) == ["b", "a"]
    assert dead_ids(store, DeadFilter(queue="mail", name="demo.mul")) == []
    early, late = min(b.dead_at, c.dead_at), c.dead_at + timedelta(hours=1)
    assert "b" in dead_ids(store, DeadFilter(since=early)) and "c" in dead_ids(store, DeadFilter(since=early))
    assert dead_ids(store, DeadFilter(since=late)) == []
    assert dead_ids(store, DeadFilter(until=late)) == ["d", "c", "b", "a"]
    assert "c" not in dead_ids(store, DeadFilter(until=c.dead_at))


def test_filtered_pages_show_each_letter_once(store: Store) -> None:
    for n in range(4):
        fail_for_good(store, f"m{n}", queue="mail")
        fail_for_good(store, f"o{n}", queue="other")
    first = store.deadletters.page(DeadFilter(queue="mail"), limit=3)
    second = store.deadletters.page(DeadFilter(queue="mail"), limit=3, cursor=first.cursor)
    assert ids([*first.items, *second.items]) == ["m3", "m2", "m1", "m0"]
    assert second.cursor is None


def test_a_dry_run_leaves_the_letter_where_it_is(store: Store) -> None:
    fail_for_good(store, "a", "b")
    assert store.deadletters.replay(DeadFilter(), dry_run=True) == ["b", "a"]
    assert dead_ids(store) == ["b", "a"]
    assert claim(store) == []
    assert record(store, "a").state is State.FAILED
    assert EventKind.REPLAYED not in kinds_of(store, "a")


def test_a_replay_delivers_once_more_with_a_fresh_budget(store: Store) -> None:
    numbers = count(1)

    def died_before_it_expired() -> str | None:
        store.broker.push([a_push(id := f"a{next(numbers)}", args={"x": 1}, expires=0.4)])
        for ending in (retry, partial(requeue, died=True, ran=0.0), dead):
            if not (held := claim(store)):
                return None
            store.broker.settle([ending(held[0])], worker=WORKER)
        return id

    id = until(died_before_it_expired)
    let_time_pass(store, 0.45)
    assert store.deadletters.replay(DeadFilter(ids=(id,))) == [id]
    waiting = record(store, id)
    assert (waiting.state, waiting.attempt, waiting.error, waiting.finished_at) == (State.QUEUED, 0, None, None)
    assert store.deadletters.get(id) is None
    assert kinds_of(store, id)[-1] is EventKind.REPLAYED
    again = claim_one(store)
    assert (again.lease.id, again.attempt, again.deaths) == (id, 0, 0)
    assert again.envelope.arguments() == {"x": 1}
    assert claim(store) == []
    store.broker.settle([done(again, "at last")], worker=WORKER)
    ended = record(store, id)
    assert (ended.state, ended.error, ended.result()) == (State.SUCCEEDED, None, "at last")


def test_a_replayed_task_may_die_again(store: Store) -> None:
    fail_for_good(store, "a", "b")
    store.deadletters.replay(DeadFilter(ids=("a",)))
    store.broker.settle([dead(claim_one(store), "again")], worker=WORKER)
    assert dead_ids(store) == ["a", "b"]
    letter = store.deadletters.get("a")
    assert letter is not None and letter.reason == "again"


def test_replay_takes_the_newest_up_to_its_limit(store: Store) -> None:
    fail_for_good(store, *"abcd")
    assert store.deadletters.replay(DeadFilter(), limit=2, dry_run=True) == ["d", "c"]
    assert store.deadletters.replay(DeadFilter(), limit=2) == ["d", "c"]
    assert dead_ids(store) == ["b", "a"]
    assert ids(claim(store)) == ["c", "d"]


def test_replay_by_queue_since_and_with_a_delay(store: Store) -> None:
    fail_for_good(store, "a", queue="mail")
    until(lambda: store.upkeep.now() > record(store, "a").updated_at.timestamp() + 0.005)
    fail_for_good(store, "b", queue="mail")
    fail_for_good(store, "c", queue="other")
    letter = store.deadletters.get("b")
    assert letter is not None
    chosen = DeadFilter(queue="mail", since=letter.dead_at)
    before = store.upkeep.now()
    assert store.deadletters.replay(chosen, delay_seconds=0.3) == ["b"]
    until(lambda: ids(claim(store, "mail", "other")) == ["b"])
    assert store.upkeep.now() >= before + 0.3
    assert dead_ids(store) == ["c", "a"]
    store.deadletters.replay(DeadFilter(ids=("a",)), delay_seconds=3600)
    assert depth(store, "mail").delayed == 1


def test_many_replayers_replay_each_letter_once(store: Store, open_store: OpenStore) -> None:
    store.broker.push([a_push(f"n{n}") for n in range(40)])
    store.broker.settle([dead(each) for each in claim(store)], worker=WORKER)
    stores = [open_store() for _ in range(4)]
    answers = together([partial(each.deadletters.replay, DeadFilter()) for each in stores])
    assert sorted(id for answer in answers for id in answer) == sorted(f"n{n}" for n in range(40))
    assert len(claim(store)) == 40


def test_purge_drops_letters_newest_first_and_keeps_the_record(store: Store) -> None:
    fail_for_good(store, *"abc")
    fail_for_good(store, "d", queue="mail")
    assert store.deadletters.purge(DeadFilter(queue="default"), limit=2) == 2
    assert dead_ids(store) == ["d", "a"]
    assert store.deadletters.get("c") is None
    assert (record(store, "c").state, record(store, "c").error) == (State.FAILED, BOOM)
    assert store.deadletters.replay(DeadFilter(ids=("c",))) == []
    assert store.deadletters.purge(DeadFilter(ids=("c", "nobody"))) == 0
    assert store.deadletters.purge(DeadFilter()) == 2
    assert store.broker.depth() == {}


def test_a_replay_is_noted_in_the_record_and_in_the_letter_that_follows(store: Store) -> None:
    store.broker.push([a_push("a", meta={"order": 7})])
    assert "replayCount" not in record(store, "a").meta
    for time in (1, 2, 3):
        delivery = claim_one(store)
        store.broker.settle([dead(delivery)], worker=f"worker-{time}")
        letter = store.deadletters.get("a")
        assert letter is not None and letter.worker == f"worker-{time}"
        assert letter.meta.get("replayCount", 0) == time - 1
        before = store.upkeep.now()
        assert store.deadletters.replay(DeadFilter()) == ["a"]
        meta = record(store, "a").meta
        assert (meta["order"], meta["replayCount"]) == (7, time)
        replayed_at = datetime.fromisoformat(meta["lastReplayAt"])
        assert before - 0.001 <= replayed_at.timestamp() <= store.upkeep.now()
    delivery = claim_one(store)
    store.broker.settle([dead(delivery)], worker=WORKER)
    (letter,) = store.deadletters.page(DeadFilter(), limit=10).items
    assert (letter.meta["replayCount"], letter.meta["lastReplayAt"]) == (3, meta["lastReplayAt"])


def test_a_callers_own_meta_of_that_name_does_not_stop_a_replay(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a", meta={"replayCount": "many"}))
    store.broker.settle([dead(delivery)], worker=WORKER)
    assert store.deadletters.replay(DeadFilter()) == ["a"]
    assert record(store, "a").meta["replayCount"] == 1
