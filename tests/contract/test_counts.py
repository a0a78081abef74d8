"""Counts are exact after every step, and peek shows what a claim would bring."""

from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, Depth
from support.builders import a_push, cancelled, dead, done, pushes, requeue, retry
from support.stores.calls import WORKER, claim, claim_one, depth, expire, ids, push_and_claim
from support.until import until


def test_counts_are_exact_through_a_whole_story(store: Store) -> None:
    def counts() -> tuple[int, int, int, int]:
        now = depth(store)
        return (now.ready, now.delayed, now.running, now.dead)

    broker = store.broker
    assert counts() == (0, 0, 0, 0)
    broker.push(pushes("a", "b", "c", "d", "e"))
    assert counts() == (5, 0, 0, 0)
    broker.push(pushes("f", "g", delay=3600))
    assert counts() == (5, 2, 0, 0)
    broker.push(pushes("a", "f"))
    assert counts() == (5, 2, 0, 0)
    a, b, c, d = claim(store, limit=4)
    assert counts() == (1, 2, 4, 0)
    broker.start([a.lease, b.lease], worker=WORKER)
    assert counts() == (1, 2, 4, 0)
    broker.settle([requeue(a)], worker=WORKER)
    assert counts() == (2, 2, 3, 0)
    broker.settle([requeue(a), done(a)], worker=WORKER)
    assert counts() == (2, 2, 3, 0)
    broker.settle([retry(b, 3600)], worker=WORKER)
    assert counts() == (2, 3, 2, 0)
    broker.settle([dead(c)], worker=WORKER)
    assert counts() == (2, 3, 1, 1)
    broker.settle([done(d, then=pushes("h", "i"))], worker=WORKER)
    assert counts() == (4, 3, 0, 1)
    store.deadletters.replay(DeadFilter(), dry_run=True)
    assert counts() == (4, 3, 0, 1)
    store.deadletters.replay(DeadFilter())
    assert counts() == (5, 3, 0, 0)
    broker.settle([dead(claim_one(store))], worker=WORKER)
    store.deadletters.replay(DeadFilter(), delay_seconds=3600)
    assert counts() == (4, 4, 0, 0)
    x, y = claim(store, limit=2)
    broker.settle([cancelled(x), dead(y)], worker=WORKER)
    assert counts() == (2, 4, 0, 1)
    expire(store, claim_one(store, lease=0.02))
    assert counts() == (2, 4, 0, 1)
    held = claim_one(store)
    assert counts() == (1, 4, 1, 1)
    assert broker.purge("default") == 5
    assert counts() == (0, 0, 1, 1)
    assert store.deadletters.purge(DeadFilter()) == 1
    assert counts() == (0, 0, 1, 0)
    broker.settle([done(held)], worker=WORKER)
    assert counts() == (0, 0, 0, 0)
    assert broker.depth() == {}


def test_expired_tasks_leave_the_counts_when_a_claim_meets_them(store: Store) -> None:
    store.broker.push(pushes("a", "b", expires=0))
    assert claim(store) == []
    assert depth(store) == Depth()


def test_a_delayed_task_moves_to_ready_when_due(store: Store) -> None:
    store.broker.push([a_push("a", delay=0.1)])
    before = depth(store)
    assert before.ready + before.delayed == 1
    until(lambda: depth(store) == Depth(ready=1))


def test_all_queues_with_a_task_are_named_and_a_named_one_is_always_there(store: Store) -> None:
    store.broker.push([a_push(queue="ready"), a_push(queue="delayed", delay=3600), a_push(queue="ended")])
    push_and_claim(store, a_push(queue="running"))
    store.broker.settle([dead(push_and_claim(store, a_push(queue="dead")))], worker=WORKER)
    store.broker.settle([done(claim_one(store, "ended"))], worker=WORKER)
    assert store.broker.depth() == {
        "ready": Depth(ready=1),
        "delayed": Depth(delayed=1),
        "running": Depth(running=1),
        "dead": Depth(dead=1),
    }
    named = store.broker.depth(["dead", "unknown", "ended"])
    assert named == {"dead": Depth(dead=1), "unknown": Depth(), "ended": Depth()}
    assert store.broker.depth([]) == {}


def test_find_shows_a_task_that_waits_or_runs_by_its_id(store: Store) -> None:
    ready_push, late_push = a_push("ready", priority=7, args={"x": 1}), a_push("delayed", delay=3600, queue="other")
    store.broker.push([ready_push, late_push, *pushes("ended", "dead")])
    ready = store.broker.find("ready")
    assert ready is not None
    assert (ready.id, ready.name, ready.queue, ready.priority, ready.attempt) == ("ready", "demo.add", "default", 7, 0)
    assert b'"x":1' in ready.body
    now = store.upkeep.now()
    assert ready.due_at.timestamp() <= now
    late = store.broker.find("delayed")
    assert late is not None and abs(late.due_at.timestamp() - now - 3600) < 10
    leases = {delivery.lease.id: delivery.lease for delivery in claim(store)}
    store.broker.start([leases["ready"]], worker=WORKER)
    running = store.broker.find("ready")
    assert running is not None and running.body == ready.body and running.due_at.timestamp() <= store.upkeep.now()
    store.broker.settle([done(leases["ended"]), dead(leases["dead"])], worker=WORKER)
    assert [store.broker.find(each) for each in ("ended", "dead", "unknown")] == [None, None, None]


def test_peek_shows_the_ready_in_claim_order_then_the_delayed_by_due(store: Store) -> None:
    store.broker.push(
        [
            a_push("low", priority=1),
            a_push("late", delay=7200, priority=9),
            a_push("high", priority=9, args={"x": 1}),
            a_push("soon", delay=3600),
            a_push("mid-1"),
            a_push("mid-2"),
            a_push("other", queue="other"),
        ]
    )
    peeked = store.broker.peek("default", limit=10)
    assert [each.id for each in peeked] == ["high", "mid-1", "mid-2", "low", "soon", "late"]
    assert [each.id for each in store.broker.peek("default", limit=5)] == ["high", "mid-1", "mid-2", "low", "soon"]
    assert store.broker.peek("default", limit=0) == []
    assert store.broker.peek("unknown", limit=5) == []
    first, last = peeked[0], peeked[-1]
    assert (first.name, first.queue, first.priority, first.attempt) == ("demo.add", "default", 9, 0)
    assert b'"x":1' in first.body
    now = store.upkeep.now()
    assert first.due_at.timestamp() <= now
    assert abs(last.due_at.timestamp() - now - 7200) < 10
    assert ids(claim(store)) == ["high", "mid-1", "mid-2", "low"]
    assert [each.id for each in store.broker.peek("default", limit=10)] == ["soon", "late"]


def test_purge_cancels_all_that_waits_and_nothing_else(store: Store) -> None:
    held = push_and_claim(store, a_push("held"))
    store.broker.settle([dead(push_and_claim(store, a_push("dead")))], worker=WORKER)
    store.broker.push([a_push("ready"), a_push("delayed", delay=3600), a_push("other", queue="other")])
    store.broker.settle([retry(push_and_claim(store, a_push("again", priority=9)), 3600)], worker=WORKER)
    assert store.broker.purge("default") == 3
    assert store.broker.purge("default") == 0
    records = store.results.get(["ready", "delayed", "again", "held", "dead", "other"])
    errors = {id: each.error.message for id, each in records.items() if each.state == "cancelled" and each.error}
    assert errors == {"ready": "purged", "delayed": "purged", "again": "purged"}
    assert [str(records[id].state) for id in ("held", "dead", "other")] == ["queued", "failed", "queued"]
    assert store.results.wait(["delayed"], timeout_seconds=0).keys() == {"delayed"}
    assert store.broker.settle([done(held)], worker=WORKER) == []
    assert depth(store) == Depth(dead=1)


def test_a_purge_of_thousands_is_whole(store: Store) -> None:
    store.broker.push([a_push(f"n{n}", delay=3600 * (n % 2)) for n in range(3000)])
    assert store.broker.purge("default") == 3000
    assert store.broker.depth() == {}
