"""Rate limits and places that hold over the whole fleet."""

from functools import partial

import pytest

from conftest import OpenStore
from stem.contracts.limiter import Bucket, Place
from stem.contracts.store import Store
from stem.core.errors import UsageError
from support.background import Errand, barrier, together
from support.stores.calls import let_time_pass
from support.stores.limiter_targets import hammer, hold_and_free
from support.until import until

HOUR = 3600.0


def bucket(key: str = "k", tokens: float = 1, per: float = HOUR, burst: float = 1) -> Bucket:
    """One token an hour: what is taken from it within a test stays taken."""
    return Bucket(key, tokens=tokens, per_seconds=per, burst=burst)


def place(holder: str, key: str = "k", limit: int = 1, ttl: float = 60) -> Place:
    return Place(key, holder=holder, limit=limit, ttl_seconds=ttl)


def is_granted(store: Store, wanted: Bucket) -> bool:
    return store.limiter.take([wanted]) == [0.0]


def test_a_bucket_starts_full_and_grants_its_burst(store: Store) -> None:
    assert store.limiter.take([]) == []
    assert [is_granted(store, bucket(burst=3)) for _ in range(5)] == [True, True, True, False, False]
    assert is_granted(store, bucket("other"))


def test_one_call_may_name_a_bucket_many_times_and_answers_in_order(store: Store) -> None:
    buckets = [bucket("b", burst=2), bucket("a"), bucket("b", burst=2), bucket("b", burst=2), bucket("a")]
    assert [wait == 0.0 for wait in store.limiter.take(buckets)] == [True, True, True, False, False]
    assert not is_granted(store, bucket("a")) and not is_granted(store, bucket("b", burst=2))


def test_tokens_come_back_at_the_rate_and_no_sooner(store: Store) -> None:
    quick = bucket(tokens=20, per=1, burst=2)
    began = store.upkeep.now()
    for _ in range(6):
        until(lambda: is_granted(store, quick))
    assert store.upkeep.now() - began >= (6 - 2) / 20 - 0.001


def test_no_more_than_the_burst_is_saved_up(store: Store) -> None:
    quick = bucket(tokens=100, per=1, burst=3)
    assert is_granted(store, quick)
    let_time_pass(store, 0.2)
    assert [wait == 0.0 for wait in store.limiter.take([quick] * 4)] == [True, True, True, False]


def test_a_caller_that_returns_at_the_time_it_was_told_is_granted(store: Store) -> None:
    quick = bucket(tokens=10, per=1)
    granted, wait = store.limiter.take([quick, quick])
    assert granted == 0.0 and wait == pytest.approx(0.1, abs=1e-3)
    let_time_pass(store, wait)
    assert is_granted(store, quick)


def test_a_refusal_takes_nothing(store: Store) -> None:
    slow = bucket(tokens=1, per=0.5)
    began = store.upkeep.now()
    granted, *refused = store.limiter.take([slow] * 60)
    assert granted == 0.0 and all(refused)
    until(lambda: is_granted(store, slow))  # each of them for half a second would be half a minute
    assert store.upkeep.now() - began >= 0.499


def test_refusals_are_sent_to_a_token_each(store: Store) -> None:
    slow = bucket(tokens=1, per=5)
    began = store.upkeep.now()
    _, *waits = store.limiter.take([slow] * 5)
    assert waits == pytest.approx([5, 10, 15, 20], abs=0.01)
    (wait,) = store.limiter.take([slow])
    passed = store.upkeep.now() - began
    assert 25 - 0.01 - passed < wait < 25


def test_nobody_is_sent_past_the_horizon(store: Store) -> None:
    waits = store.limiter.take([bucket(tokens=1, per=1)] * 200)[1:]
    assert waits[:59] == pytest.approx(range(1, 60), abs=0.01)
    again = store.limiter.take([bucket(tokens=1, per=1)] * 50)  # by now there may be one token
    beyond = waits[61:] + [wait for wait in again if wait]
    assert min(beyond) >= 30 and max(beyond) <= 60.01
    assert min(beyond) < 40 and max(beyond) > 50 and len(set(beyond)) > 100
    slow = store.limiter.take([bucket("slow")] * 100)[1:]
    assert slow[0] == pytest.approx(HOUR, rel=1e-3)
    assert min(slow[1:]) >= HOUR and max(slow) <= 2 * HOUR + 1


def test_a_rate_that_was_edited_applies_at_once(store: Store) -> None:
    store.limiter.take([bucket()] * 100)
    raised = bucket(tokens=100, per=1, burst=5)
    until(lambda: is_granted(store, raised))
    waits = [wait for wait in store.limiter.take([raised] * 10) if wait]
    assert waits and max(waits) < 1, "promises made at the old rate do not count"
    let_time_pass(store, 0.1)
    assert [wait == 0.0 for wait in store.limiter.take([raised] * 6)] == [True] * 5 + [False]
    lowered = bucket(tokens=1, per=20)
    until(lambda: store.limiter.take([lowered])[0] > 15)


def test_a_burst_that_was_lowered_applies_at_once(store: Store) -> None:
    assert is_granted(store, bucket(burst=10))
    assert [wait == 0.0 for wait in store.limiter.take([bucket(burst=2)] * 3)] == [True, True, False]


@pytest.mark.parametrize("key", ["", "a:b", "{x}", "sälü 🌱", "a\x00b", "a\x01b", "'; --", "x" * 2000])
def test_a_key_is_any_text(store: Store, key: str) -> None:
    assert is_granted(store, bucket(key)) and not is_granted(store, bucket(key))
    assert is_granted(store, bucket(f"{key}!"))
    assert store.limiter.hold([place(key, key), place("other", key)]) == [True, False]
    store.limiter.free([place(key, key)])
    assert store.limiter.hold([place("other", key)]) == [True]


@pytest.mark.parametrize(
    ("tokens", "per", "burst"), [(0, 1, 1), (1, 0, 1), (1, 1, 0.5), (1, float("inf"), 1), (-1, -1, 1)]
)
def test_a_bucket_that_could_never_grant_is_refused(tokens: float, per: float, burst: float) -> None:
    with pytest.raises(UsageError, match="could never grant"):
        Bucket("k", tokens=tokens, per_seconds=per, burst=burst)


def test_a_place_for_no_time_is_refused() -> None:
    with pytest.raises(UsageError, match="could not be held"):
        place("me", ttl=0)


def test_places_are_granted_up_to_the_limit(store: Store) -> None:
    assert store.limiter.hold([]) == []
    wanted = [place("a", limit=2), place("b", limit=2), place("c", limit=2), place("c", key="other")]
    assert store.limiter.hold(wanted) == [True, True, False, True]
    assert store.limiter.hold([place("d", limit=2)]) == [False]
    assert store.limiter.hold([place("d", key="none", limit=0)]) == [False]


def test_a_holder_renews_its_place_and_takes_no_second_one(store: Store) -> None:
    assert store.limiter.hold([place("a", ttl=0.3), place("a", ttl=60, limit=2), place("b", limit=2)]) == [True] * 3
    let_time_pass(store, 0.4)
    assert store.limiter.hold([place("c", limit=2), place("a", limit=2)]) == [False, True]


def test_a_freed_place_goes_to_the_next(store: Store) -> None:
    store.limiter.free([])
    store.limiter.free([place("nobody")])
    assert store.limiter.hold([place("a"), place("b", key="other")]) == [True, True]
    store.limiter.free([place("b"), place("a", key="other")])
    assert store.limiter.hold([place("b"), place("a", key="other")]) == [False, False], "only a holder can free"
    store.limiter.free([place("a"), place("b", key="other"), place("a")])
    assert store.limiter.hold([place("b"), place("a", key="other")]) == [True, True]


def test_the_place_of_a_dead_holder_frees_itself(store: Store) -> None:
    began = store.upkeep.now()
    assert store.limiter.hold([place("dead", limit=2, ttl=0.2), place("alive", limit=2)]) == [True, True]
    until(lambda: store.limiter.hold([place("next", limit=2)]) == [True])
    assert store.upkeep.now() - began >= 0.199
    assert store.limiter.hold([place("dead", limit=2), place("alive", limit=2)]) == [False, True]


def test_a_limit_may_change_while_places_are_held(store: Store) -> None:
    assert store.limiter.hold([place("a"), place("b")]) == [True, False]
    assert store.limiter.hold([place("b", limit=2), place("c", limit=3), place("d", limit=3)]) == [True, True, False]
    assert store.limiter.hold([place(name, limit=1) for name in "abcd"]) == [True, True, True, False]
    store.limiter.free([place("a"), place("b")])
    assert store.limiter.hold([place("d", limit=1)]) == [False]


def test_namespaces_have_limits_of_their_own(open_store: OpenStore, namespace: str) -> None:
    here, there = open_store(), open_store(f"{namespace}-2")
    assert is_granted(here, bucket()) and is_granted(there, bucket())
    assert not is_granted(here, bucket())
    assert here.limiter.hold([place("a")]) == there.limiter.hold([place("b")]) == [True]
    there.limiter.free([place("a")])
    assert here.limiter.hold([place("b")]) == [False]
    assert not is_granted(open_store(), bucket()), "another store of the namespace sees the same"


def test_limits_that_say_nothing_any_more_are_dropped_and_others_stay(store: Store) -> None:
    short = [bucket(f"short{n}", tokens=50, per=1, burst=2) for n in range(3)]
    assert store.limiter.take([*short, bucket("long")]) == [0.0] * 4
    assert store.limiter.hold([place("a", "short", ttl=0.1), place("a", "long")]) == [True, True]
    gone: list[int] = []

    def is_pruned() -> bool:
        gone.append(store.upkeep.prune())
        return sum(gone) >= 4

    if store.upkeep.diagnose().backend == "redis":  # keys expire by themselves: test_redis_keys looks for them
        let_time_pass(store, 0.2)
        store.upkeep.prune()
    else:
        until(is_pruned)
    assert store.limiter.take(short * 2) == [0.0] * 6
    assert not is_granted(store, bucket("long"))
    assert store.limiter.hold([place("b", "short"), place("b", "long")]) == [True, False]


def test_of_many_that_take_and_hold_at_once_as_many_succeed_as_may(store: Store, open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(8)]
    takes = together([partial(each.limiter.take, [bucket(burst=5)] * 2) for each in stores])
    assert sum(answer.count(0.0) for answer in takes) == 5
    holds = together([partial(each.limiter.hold, [place(f"h{n}", limit=3)]) for n, each in enumerate(stores)])
    assert holds.count([True]) == 3


def test_processes_that_hammer_a_bucket_get_its_rate_and_no_more(durable_url: str, namespace: str) -> None:
    wanted = bucket(tokens=20, per=1, burst=40)  # it saves up what comes while the machine is halted
    gate = barrier(4)
    takers = [Errand(hammer, durable_url, namespace, wanted, 2.0, gate) for _ in range(4)]
    found = [taker.result() for taker in takers]
    grants = sum(each.grants for each in found)
    longest = max(each.after_last for each in found) - min(each.before_first for each in found)
    surely = max(each.before_last for each in found) - min(each.after_first for each in found)
    assert grants <= 20 * longest + 40 + 0.001
    assert grants >= 0.95 * (20 * surely + 40)


def test_processes_that_race_for_places_never_hold_too_many(durable_url: str, namespace: str) -> None:
    limit = 2
    gate = barrier(4)
    racers = [Errand(hold_and_free, durable_url, namespace, limit, 150, gate) for _ in range(4)]
    spans = [span for racer in racers for span in racer.result()]
    assert len(spans) >= 150
    assert _most_at_once(spans) <= limit


def _most_at_once(spans: list[tuple[float, float]]) -> int:
    most = held = 0
    for _, change in sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans]):
        held += change
        most = max(most, held)
    return most
