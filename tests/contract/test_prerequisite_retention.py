"""The record of a prerequisite is kept as long as a task that waited for it may need it, and no longer."""

from collections.abc import Iterator

import msgspec
import pytest

from conftest import OpenStore
from stem.backends import connect, split
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter
from stem.core.errors import StoreRefused
from stem.core.lifecycle import State
from stem.core.record import TaskFilter
from stem.core.settings.app import Retention, Settings
from support.builders import a_join, a_push, block, dead, done, pushes
from support.stores.calls import WORKER, claim, claim_one, ids, let_time_pass, state
from support.stores.graphs import counts, fail, is_blocked, states, stop, succeed, take, told
from support.until import until

KEPT = 0.05


@pytest.fixture
def brief(open_store: OpenStore) -> Store:
    """A store that keeps results for a moment only."""
    return open_store(retention=Retention(results_seconds=KEPT))


def age(store: Store) -> None:
    """Let all that has ended outlive its retention, and delete what can go."""
    let_time_pass(store, KEPT * 1.2)
    while store.upkeep.prune():
        pass


def kept(store: Store, *ids: str) -> list[str]:
    """Those whose record is still there for who needs it; nobody else sees it after its time."""
    assert store.results.get(ids) == {}
    assert not set(ids) & {each.id for each in store.results.page(TaskFilter(), limit=1000).items}
    return sorted(store.results.get(ids, past_retention=True))


def go(store: Store, *ids: str) -> bool:
    """They are deleted, if not at once: a store need not look at every record each time."""

    def are_gone() -> bool:
        while store.upkeep.prune():
            pass
        return not store.results.get(ids, past_retention=True)

    return until(are_gone, seconds=30, every=0.02)


def test_it_is_kept_while_what_waits_for_it_has_not_ended(brief: Store) -> None:
    brief.broker.push([*pushes("a", "b", "other"), a_push("c", after=["a", "b"])])
    a, b, other = take(brief, "a", "b", "other")
    brief.broker.settle([done(a, {"v": [1]}), done(other)], worker=WORKER)
    age(brief)
    assert kept(brief, "a", "other") == ["a"]
    found = brief.results.get(["a"], past_retention=True)["a"]
    assert (found.state, found.result()) == (State.SUCCEEDED, {"v": [1]})
    brief.broker.settle([done(b)], worker=WORKER)
    (c,) = take(brief, "c")
    age(brief)
    assert kept(brief, "a", "b") == ["a", "b"]
    brief.broker.settle([done(c)], worker=WORKER)
    assert go(brief, "a", "b", "c")
    assert brief.upkeep.prune() == 0


def test_an_id_whose_record_is_kept_is_known(brief: Store) -> None:
    brief.broker.push([a_push("a"), a_push("b", after=["a"], delay=3600)])
    succeed(brief, "a")
    age(brief)
    assert not brief.broker.push(pushes("a"))[0].created
    brief.broker.push([a_push("c", after=["a"])])
    assert ids(claim(brief)) == ["c"]


def test_one_whose_record_is_gone_is_unknown(brief: Store) -> None:
    brief.broker.push(pushes("a"))
    succeed(brief, "a")
    age(brief)
    with pytest.raises(StoreRefused, match="a"):
        brief.broker.push([a_push("b", after=["a"])])
    assert brief.broker.push(pushes("a"))[0].created


def test_it_is_kept_while_what_waited_for_it_lies_among_the_dead_letters(brief: Store) -> None:
    brief.broker.push([a_push("a"), a_push("b", after=["a"])])
    succeed(brief, "a")
    fail(brief, "b")
    age(brief)
    assert kept(brief, "a") == ["a"]
    brief.deadletters.replay(DeadFilter())
    age(brief)
    assert kept(brief, "a") == ["a"]
    fail(brief, "b")
    brief.deadletters.purge(DeadFilter())
    assert go(brief, "a", "b")


def test_it_is_kept_while_what_a_failure_cancelled_may_be_revived(open_store: OpenStore) -> None:
    """That is, while the record of what was cancelled is kept."""
    store = open_store(retention=Retention(results_seconds=0.8))
    store.broker.push([a_push("good"), a_push("bad"), a_push("c", after=["good", "bad"])])
    good, bad = take(store, "good", "bad")
    store.broker.settle([done(good, 7)], worker=WORKER)
    let_time_pass(store, 0.5)
    store.broker.settle([dead(bad)], worker=WORKER)
    until(lambda: not store.results.get(["good"]))
    store.upkeep.prune()
    found = store.results.get(["good"], past_retention=True)
    assert not store.results.get(["c"]) or found["good"].result() == 7, "what ended later is still there"
    store.deadletters.purge(DeadFilter())
    assert go(store, "good", "bad", "c")


def test_members_are_kept_as_long_as_the_record_of_their_join(open_store: OpenStore) -> None:
    store = open_store(retention=Retention(results_seconds=0.8))
    store.broker.push([*pushes("a", "b"), a_join("j", "a", "b"), a_join("outer", "j")])
    a, b = take(store, "a", "b")
    store.broker.settle([done(a, 1)], worker=WORKER)
    let_time_pass(store, 0.5)
    store.broker.settle([done(b, 2)], worker=WORKER)
    until(lambda: not store.results.get(["a"]))
    store.upkeep.prune()
    found = store.results.get(["a"], past_retention=True)
    assert not store.results.get(["outer"]) or found["a"].result() == 1
    assert go(store, "a", "b", "j", "outer")


def test_prerequisites_are_kept_while_a_task_waits_for_them(brief: Store) -> None:
    brief.broker.push(pushes("a", "b", "c"))
    a, b, c = take(brief, "a", "b", "c")
    brief.broker.settle([block(a, "b", "c"), done(b, 2)], worker=WORKER)
    age(brief)
    assert kept(brief, "b") == ["b"]
    brief.broker.settle([done(c)], worker=WORKER)
    assert go(brief, "a", "b", "c")


@pytest.mark.parametrize("how", ["dead", "cancelled", "passes"])
def test_a_failed_one_is_kept_as_well_for_what_runs_all_the_same(brief: Store, how: str) -> None:
    brief.broker.push([a_push("a"), a_push("b", after=["a"], on_failure="run", delay=3600)])
    if how == "dead":
        fail(brief, "a")
        brief.deadletters.purge(DeadFilter())
    else:
        stop(brief, "a", passes=how == "passes")
    age(brief)
    assert kept(brief, "a") == ["a"]
    assert brief.results.get(["a"], past_retention=True)["a"].error is not None
    brief.broker.cancel(["b"])
    assert go(brief, "a", "b")


def test_steps_are_kept_with_a_record_that_is_needed(brief: Store) -> None:
    brief.broker.push([a_push("a"), a_push("b", after=["a"], delay=3600)])
    a = claim_one(brief)
    brief.steps.record(a.lease, "pay", msgspec.Raw(b"1"))
    brief.broker.settle([done(a)], worker=WORKER)
    age(brief)
    assert [step.name for step in brief.steps.all("a")] == ["pay"]
    brief.broker.cancel(["b"])
    assert go(brief, "a", "b")
    assert brief.steps.all("a") == []


def test_many_that_are_needed_do_not_keep_others_from_being_pruned(brief: Store) -> None:
    members = [f"m{n}" for n in range(2500)]
    brief.broker.push([*pushes(*members), a_push("after", after=members, delay=3600), *pushes("x", "y")])
    while held := claim(brief, limit=500):
        brief.broker.settle([done(each) for each in held], worker=WORKER)

    let_time_pass(brief, KEPT)
    assert go(brief, "x", "y")
    assert len(brief.results.get(members, past_retention=True)) == 2500
    brief.broker.cancel(["after"])
    assert go(brief, *members, "after")


def test_without_a_retention_to_outlive_the_answer_is_the_same(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"])])
    succeed(store, "a")
    asked = ["a", "b", "ghost"]
    assert store.results.get(asked, past_retention=True) == store.results.get(asked)


def test_graphs_of_two_namespaces_never_meet(open_store: OpenStore, namespace: str) -> None:
    here, there = open_store(), open_store(f"{namespace}-2")
    for store in (here, there):
        store.broker.push([a_push("a"), a_push("b", after=["a"]), a_join("j", "b")])
    here.broker.push(pushes("mine"))
    with pytest.raises(StoreRefused, match="mine"):
        there.broker.push([a_push("c", after=["mine"])])
    with pytest.raises(StoreRefused, match="k"):
        there.broker.push([a_push("c", into="k")])
    fail(here, "a", "mine")
    assert is_blocked(there, "b", "j")
    succeed(there, "a")
    succeed(there, "b")
    assert states(there, "a", "b", "j") == ["succeeded"] * 3
    assert states(here, "a", "b", "j") == ["failed", "cancelled", "cancelled"]
    assert counts(there) == (0, 0, 0, 0, 0)


def apart(url: str, namespace: str, retention: Retention | None = None) -> Store:
    """Broker and results in different stores."""
    settings = Settings(namespace=namespace, retention=retention or Retention())
    return split.join(connect(url, settings), connect(f"memory://results-of-{namespace}", settings))


@pytest.fixture
def split_store(store_url: str, namespace: str) -> Iterator[Store]:
    joined = apart(store_url, namespace)
    yield joined
    joined.upkeep.close()


def test_graphs_end_the_same_with_results_in_a_store_of_their_own(split_store: Store) -> None:
    split_store.broker.push([*pushes("a", "b"), a_join("j", "a", "b", args={"x": 1}), a_push("c", after=["j"])])
    assert states(split_store, "a", "j", "c") == ["queued"] * 3
    fail(split_store, "a", "b")
    assert states(split_store, "a", "b", "j", "c") == ["failed", "failed", "cancelled", "cancelled"]
    assert split_store.results.wait(["c"], timeout_seconds=10)["c"].state is State.CANCELLED
    split_store.deadletters.replay(DeadFilter())
    succeed(split_store, "a", "b")
    assert states(split_store, "a", "b", "j", "c") == ["succeeded", "succeeded", "succeeded", "queued"]
    assert split_store.results.wait(["j"], timeout_seconds=10)["j"].result() == {"x": 1}
    delivery = claim_one(split_store)
    split_store.broker.settle([block(delivery, "d", then=[a_push("d")])], worker=WORKER)
    assert states(split_store, "c", "d") == ["queued", "queued"]
    succeed(split_store, "d")
    assert (state(split_store, "c"), told(split_store, "c")[-1]) == (State.SUCCEEDED, ("joined", {}))
    listed = split_store.results.page(TaskFilter(state=State.SUCCEEDED), limit=10).items
    assert sorted(ids(listed)) == ["a", "b", "c", "d", "j"]


def test_a_join_revived_after_its_copy_was_read_is_read_as_it_ended(split_store: Store) -> None:
    split_store.broker.push([a_push("a"), a_join("j", "a"), a_push("b", after=["j"])])
    for _ in range(2):
        fail(split_store, "a")
        assert states(split_store, "j", "b") == ["cancelled", "cancelled"]
        split_store.deadletters.replay(DeadFilter())
    succeed(split_store, "a")
    assert states(split_store, "j", "b") == ["succeeded", "queued"]
    fail(split_store, "b")
    assert states(split_store, "j", "b") == ["succeeded", "failed"]


def test_results_kept_for_dependents_are_read_from_the_broker_s_store(store_url: str, namespace: str) -> None:
    joined = apart(store_url, namespace, Retention(results_seconds=KEPT))
    joined.broker.push([a_push("a"), a_push("b", after=["a"], delay=3600)])
    joined.broker.settle([done(claim_one(joined), 5)], worker=WORKER)
    age(joined)
    assert joined.results.get(["a"], past_retention=True)["a"].result() == 5
    joined.upkeep.close()
