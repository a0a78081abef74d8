"""Who waits on Redis again and again stays tuned in, and looks only when he may have missed something; who is busy is not."""

from collections.abc import Iterator

import pytest
import redis

from stem.backends import handoff
from stem.backends.redis.broker import RedisBroker
from stem.backends.redis.connection import subscriptions
from stem.contracts.store import Store
from stem.core.errors import StemError
from support.background import in_thread, is_waiting
from support.builders import a_push, pushes
from support.servers import RedisServer
from support.stores.calls import claim, ids, let_time_pass
from support.stores.handoffs import handoff_of, register, wait_for_handoff
from support.stores.opened import a_store
from support.until import until

SOON = 20.0


@pytest.fixture
def store(redis_server: RedisServer, namespace: str) -> Iterator[Store]:
    yield from a_store(redis_server.url, namespace)


@pytest.fixture
def other(redis_server: RedisServer, namespace: str) -> Iterator[Store]:
    yield from a_store(redis_server.url, namespace)


@pytest.fixture
def server(redis_server: RedisServer) -> Iterator["redis.Redis"]:
    with redis.Redis(port=redis_server.port, decode_responses=True) as client:
        yield client


def test_repeated_waits_make_no_query_in_between(store: Store, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not store.broker.wait(["default"], timeout_seconds=0.05)
    scripts = scripts_of(store, monkeypatch)
    for _ in range(3):
        assert claim(store) == []
        waiting = in_thread(
            lambda: store.broker.wait(["default"], timeout_seconds=1.5)
        )  # less than until its slow poll
        assert is_waiting(waiting)
        other.broker.push([a_push()])
        assert waiting.result(SOON)
        assert len(claim(store)) == 1
    assert set(scripts) == {"claim"}


def test_a_message_between_two_waits_causes_a_look(store: Store, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not store.broker.wait(["default"], timeout_seconds=0.05)
    assert claim(store) == []
    other.broker.push([a_push()])
    assert store.broker.wait(["default"], timeout_seconds=SOON)
    assert len(claim(store)) == 1
    scripts = scripts_of(store, monkeypatch)
    waiting = in_thread(lambda: store.broker.wait(["default"], timeout_seconds=60))
    assert is_waiting(waiting)  # nothing has come since the claim
    assert scripts == []
    other.broker.push([a_push()])
    assert waiting.result(SOON)


def test_a_delayed_task_that_a_claim_has_seen_ends_the_wait_when_it_is_due(store: Store) -> None:
    assert not store.broker.wait(["default"], timeout_seconds=0.05)
    store.broker.push([a_push(delay=0.7)])
    assert claim(store) == []
    assert store.broker.wait(["default"], timeout_seconds=SOON)
    until(lambda: claim(store))


def test_a_busy_worker_does_not_subscribe(store: Store) -> None:
    assert not store.broker.wait(["default"], timeout_seconds=0.05)
    assert listeners(store, "default") == 1
    store.broker.push(pushes("a", "b", "c"))
    assert len(claim(store, limit=2)) == 2
    until(lambda: listeners(store, "default") == 0)
    assert len(claim(store, limit=2)) == 1
    assert not store.broker.wait(["default"], timeout_seconds=0.05)


def test_a_waiter_for_another_topic_receives_only_that_topic(store: Store, other: Store) -> None:
    assert not store.broker.wait(["default"], timeout_seconds=0.05)
    waiting = in_thread(lambda: store.broker.wait(["else"], timeout_seconds=60))
    until(lambda: listeners(store, "else") == 1 and listeners(store, "default") == 0)
    other.broker.push([a_push(queue="default")])
    assert is_waiting(waiting)
    other.broker.push([a_push(queue="else")])
    assert waiting.result(SOON)


def test_a_queue_that_is_left_out_for_a_while_is_heard_again(store: Store, other: Store) -> None:
    for queues in (["a", "b"], ["a"]):
        assert not store.broker.wait(queues, timeout_seconds=0.05)
        assert claim(store, *queues) == []
    assert not store.broker.wait(["a", "b"], timeout_seconds=0.05)
    assert claim(store, "a", "b") == []
    waiting = in_thread(lambda: store.broker.wait(["a", "b"], timeout_seconds=60))
    until(lambda: (listeners(store, "a"), listeners(store, "b")) == (1, 1))
    other.broker.push([a_push(queue="b")])
    assert waiting.result(SOON)


def test_a_worker_without_room_does_not_subscribe(store: Store) -> None:
    assert not store.broker.wait(["default"], timeout_seconds=0.05)
    store.broker.release_wait()
    until(lambda: listeners(store, "default") == 0)


def test_two_who_wait_at_once_both_hear(store: Store, other: Store) -> None:
    assert not store.broker.wait(["default"], timeout_seconds=0.05)
    waiting = [in_thread(lambda: store.broker.wait(["default"], timeout_seconds=60)) for _ in range(2)]
    until(lambda: listeners(store, "default") == 2)
    other.broker.push([a_push()])
    assert all(each.result(SOON) for each in waiting)


def test_a_closed_store_leaves_nobody_listening(store: Store, other: Store) -> None:
    until(lambda: not store.broker.wait(["default"], timeout_seconds=0.05) and listeners(other, "default") == 1)
    store.upkeep.close()
    until(lambda: listeners(other, "default") == 0)


def test_a_task_handed_over_on_a_broken_connection_is_fetched(
    store: Store, other: Store, server: "redis.Redis"
) -> None:
    register(store)
    other.broker.push([a_push("a")])
    server.client_kill_filter(_type="pubsub")
    assert wait_for_handoff(store)
    assert ids(claim(store)) == ["a"]
    server.client_kill_filter(_type="pubsub")
    other.broker.push([a_push("b")])  # nobody hears it
    assert ids(claim(other)) == ["b"]


def test_a_connection_that_has_missed_something_is_replaced(
    store: Store, other: Store, server: "redis.Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that has silently died, which the server does not know."""
    register(store)
    (before,) = server.client_list(_type="pubsub")
    monkeypatch.setattr(subscriptions.Subscriber, "listen", lambda *_: False)
    monkeypatch.setattr(
        subscriptions.Subscribers, "_take_subscribed", lambda self, _: self._client.kept_subscribers.take()
    )
    other.broker.push([a_push("a")])
    let_time_pass(store, 1.1)
    assert wait_for_handoff(store, room=1)
    assert ids(claim(store)) == ["a"]
    until(lambda: before["id"] not in {each["id"] for each in server.client_list(_type="pubsub")})


def test_a_push_that_the_server_refuses_is_published_to_nobody(
    store: Store, other: Store, server: "redis.Redis"
) -> None:
    register(store)
    server.config_set("min-replicas-to-write", 1)
    try:
        with pytest.raises(StemError):
            other.broker.push([a_push("a")])
    finally:
        server.config_set("min-replicas-to-write", 0)
    assert not wait_for_handoff(store)
    assert claim(store) == []


def test_fetched_ids_are_forgotten_in_time(store: Store, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may never be heard of."""
    monkeypatch.setattr(handoff, "_LATEST_SECONDS", 0.0)
    register(store)
    for number in range(5):
        other.broker.push([a_push(f"t{number}")])
        assert wait_for_handoff(store)
        assert ids(claim(store)) == [f"t{number}"]
        assert not wait_for_handoff(store)
    assert len(handoff_of(store)._handed._fetched) <= 1


def test_a_worker_that_stopped_for_good_asks_no_more_often_than_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(store)
    store.broker.stop_handoff(for_good=True)
    scripts = scripts_of(store, monkeypatch)
    assert not wait_for_handoff(store, seconds=0.5)
    assert len(scripts) <= 3


def listeners(store: Store, queue: str) -> int:
    assert isinstance(store.broker, RedisBroker)
    space = store.broker._namespace
    _, count = space.client.call("PUBSUB", "NUMSUB", space.prefix + f"wake:{queue}")
    return int(count)


def scripts_of(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Those that run from now on."""
    assert isinstance(store.broker, RedisBroker)
    space, names = store.broker._namespace, list[str]()
    run = space.run

    def noted(name, *given, **more):  # type: ignore[no-untyped-def]
        names.append(name)
        return run(name, *given, **more)

    monkeypatch.setattr(space, "run", noted)
    return names
