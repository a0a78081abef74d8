"""Leased, fenced, named locks."""

from functools import partial

from conftest import OpenStore
from stem.contracts.store import Store
from support.background import Errand, barrier, together
from support.stores.calls import in_time, let_time_pass
from support.stores.process_targets import hold_lock
from support.until import until


def test_a_lock_has_one_owner(store: Store) -> None:
    assert store.locks.owner("l") is None
    fence = store.locks.acquire("l", owner="me", ttl_seconds=60)
    assert fence is not None and fence > 0
    assert store.locks.owner("l") == "me"
    assert store.locks.acquire("l", owner="you", ttl_seconds=60) is None
    assert store.locks.owner("l") == "me"
    assert store.locks.acquire("other", owner="you", ttl_seconds=60) is not None


def test_its_owner_may_acquire_again_and_keeps_the_number(store: Store) -> None:
    def twice(number: int) -> tuple[str, int | None, int | None]:
        first = store.locks.acquire(name := f"l{number}", owner="me", ttl_seconds=0.3)
        return name, first, store.locks.acquire(name, owner="me", ttl_seconds=60)

    name, first, second = in_time(store, 0.3, twice)
    assert first == second is not None
    let_time_pass(store, 0.4)
    assert store.locks.owner(name) == "me"


def test_a_wrong_owner_can_neither_renew_nor_release(store: Store) -> None:
    store.locks.acquire("l", owner="me", ttl_seconds=60)
    assert not store.locks.renew("l", owner="you", ttl_seconds=60)
    assert not store.locks.release("l", owner="you")
    assert store.locks.owner("l") == "me"
    assert not store.locks.renew("unknown", owner="me", ttl_seconds=60)
    assert not store.locks.release("unknown", owner="me")


def test_a_released_lock_is_free_and_the_next_fence_is_higher(store: Store) -> None:
    first = store.locks.acquire("l", owner="me", ttl_seconds=60)
    assert store.locks.release("l", owner="me")
    assert not store.locks.release("l", owner="me")
    assert store.locks.owner("l") is None
    second = store.locks.acquire("l", owner="you", ttl_seconds=60)
    assert first is not None and second is not None and second > first


def test_a_renewed_lock_outlives_its_first_term(store: Store) -> None:
    def renewed(number: int) -> tuple[str, bool]:
        store.locks.acquire(name := f"l{number}", owner="me", ttl_seconds=0.3)
        return name, store.locks.renew(name, owner="me", ttl_seconds=60)

    name, is_renewed = in_time(store, 0.3, renewed)
    assert is_renewed
    let_time_pass(store, 0.4)
    assert store.locks.acquire(name, owner="you", ttl_seconds=60) is None


def test_an_expired_lock_is_stolen_and_the_old_owner_refused(store: Store, open_store: OpenStore) -> None:
    thief = open_store()
    first = store.locks.acquire("l", owner="me", ttl_seconds=0.1)
    second = until(lambda: thief.locks.acquire("l", owner="you", ttl_seconds=60))
    assert first is not None and second is not None and second > first
    assert store.locks.owner("l") == "you"
    assert not store.locks.renew("l", owner="me", ttl_seconds=60)
    assert not store.locks.release("l", owner="me")
    assert store.locks.acquire("l", owner="me", ttl_seconds=60) is None


def test_an_expired_lock_cannot_be_renewed_and_pruning_does_not_reset_its_fence(store: Store) -> None:
    first = store.locks.acquire("l", owner="me", ttl_seconds=0.05)
    until(lambda: store.locks.owner("l") is None)
    assert not store.locks.renew("l", owner="me", ttl_seconds=60)
    assert not store.locks.release("l", owner="me")
    store.upkeep.prune()
    second = store.locks.acquire("l", owner="me", ttl_seconds=60)
    assert first is not None and second is not None and second > first


def test_of_many_that_try_at_once_one_wins(store: Store, open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(4)]
    fences = together(
        [partial(each.locks.acquire, "l", owner=f"o{n}", ttl_seconds=60) for n, each in enumerate(stores)]
    )
    assert sum(fence is not None for fence in fences) == 1


def test_of_many_processes_that_try_at_once_one_wins(durable_store: Store, durable_url: str, namespace: str) -> None:
    gate = barrier(4)
    fences = [
        errand.result() for errand in [Errand(hold_lock, durable_url, namespace, f"o{n}", gate) for n in range(4)]
    ]
    assert sum(fence is not None for fence in fences) == 1
    winner = next(n for n, fence in enumerate(fences) if fence is not None)
    assert durable_store.locks.owner("leader") == f"o{winner}"
