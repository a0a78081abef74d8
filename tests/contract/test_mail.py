"""Mailboxes and broadcast: small messages that reach whom they should, once, and never late."""

import time
from collections.abc import Callable
from functools import partial

from conftest import OpenStore
from stem.contracts.store import Store
from support.background import Errand, barrier, in_thread, is_waiting, takes_less_than, timed, together
from support.builders import a_push
from support.stores.calls import claim, let_time_pass
from support.stores.process_targets import send_when_told


def test_a_message_is_taken_out_once_oldest_first(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    for n in range(5):
        other.mail.send("box", b"m%d" % n, ttl_seconds=60)
    assert store.mail.receive("box", timeout_seconds=0, limit=2) == [b"m0", b"m1"]
    assert other.mail.receive("box", timeout_seconds=0) == [b"m2", b"m3", b"m4"]
    assert store.mail.receive("box", timeout_seconds=0) == []
    assert store.mail.receive("other", timeout_seconds=0) == []


def test_a_message_may_hold_any_bytes(store: Store) -> None:
    message = bytes(range(256)) * 40
    subscription = store.mail.subscribe("news")
    store.mail.send("box", message, ttl_seconds=60)
    store.mail.publish("news", message, ttl_seconds=60)
    assert store.mail.receive("box", timeout_seconds=20) == [message]
    assert subscription.receive(timeout_seconds=20) == [message]
    subscription.close()


def test_a_sleeping_receiver_is_woken(store: Store, open_store: OpenStore) -> None:
    send = partial(open_store().mail.send, "box", b"hello", ttl_seconds=60)
    receive = partial(store.mail.receive, "box", timeout_seconds=20)
    takes_less_than(0.5, lambda: seconds_to_wake(receive, send))


def seconds_to_wake(receive: Callable[[], list[bytes]], send: Callable[[], None]) -> float:
    """From the sending until who sleeps has it."""
    waiter = in_thread(lambda: timed(receive))
    assert is_waiting(waiter)
    sent = time.monotonic()
    send()
    messages, at = waiter.result(30)
    assert messages == [b"hello"]
    return at - sent


def test_receiving_ends_on_time(store: Store) -> None:
    subscription = store.mail.subscribe("news")
    for receive in (
        partial(store.mail.receive, "box", timeout_seconds=0.2),
        partial(subscription.receive, timeout_seconds=0.2),
    ):
        takes_less_than(0.7, partial(seconds_in_vain, receive))
    subscription.close()


def seconds_in_vain(receive: Callable[[], list[bytes]]) -> float:
    began = time.monotonic()
    assert receive() == []
    taken = time.monotonic() - began
    assert taken >= 0.19
    return taken


def test_of_many_receivers_each_message_goes_to_one(store: Store, open_store: OpenStore) -> None:
    for n in range(60):
        store.mail.send("box", b"%d" % n, ttl_seconds=60)
    stores = [open_store() for _ in range(4)]

    def take(each: Store) -> list[bytes]:
        got: list[bytes] = []
        while messages := each.mail.receive("box", timeout_seconds=0, limit=3):
            got += messages
        return got

    shares = together([partial(take, each) for each in stores])
    assert sorted(m for share in shares for m in share) == sorted(b"%d" % n for n in range(60))


def test_a_broadcast_reaches_three_subscriptions_once_each(store: Store, open_store: OpenStore) -> None:
    subscriptions = [each.mail.subscribe("news") for each in (store, store, open_store())]
    for n in range(3):
        store.mail.publish("news", b"n%d" % n, ttl_seconds=60)
    for subscription in subscriptions:
        got: list[bytes] = []
        while batch := subscription.receive(timeout_seconds=20 if len(got) < 3 else 0):
            got += batch
        assert got == [b"n0", b"n1", b"n2"]
        assert subscription.receive(timeout_seconds=0.05) == []
        subscription.close()


def test_a_broadcast_reaches_an_owner_that_holds_many_deliveries(store: Store) -> None:
    subscription = store.mail.subscribe("news")
    store.broker.push([a_push() for _ in range(300)])
    assert len(claim(store, limit=300)) == 300
    store.mail.publish("news", b"stop", ttl_seconds=60)
    assert subscription.receive(timeout_seconds=20) == [b"stop"]
    subscription.close()


def test_a_subscription_takes_no_more_than_asked_for_and_keeps_the_rest(store: Store) -> None:
    subscription = store.mail.subscribe("news")
    for n in range(5):
        store.mail.publish("news", b"n%d" % n, ttl_seconds=60)
    got: list[bytes] = []
    while len(got) < 5:
        batch = subscription.receive(timeout_seconds=20, limit=2)
        assert 1 <= len(batch) <= 2
        got += batch
    assert got == [b"n%d" % n for n in range(5)]
    subscription.close()


def test_a_subscription_does_not_see_what_was_published_before(store: Store) -> None:
    early = store.mail.subscribe("news")
    store.mail.publish("news", b"old", ttl_seconds=60)
    late = store.mail.subscribe("news")
    store.mail.publish("news", b"new", ttl_seconds=60)
    assert late.receive(timeout_seconds=20) == [b"new"]
    assert late.receive(timeout_seconds=0.05) == []
    assert early.receive(timeout_seconds=20, limit=1) == [b"old"]
    late.close()
    early.close()


def test_channels_and_boxes_of_one_name_are_apart(store: Store) -> None:
    news, weather = store.mail.subscribe("news"), store.mail.subscribe("weather")
    store.mail.send("news", b"mail", ttl_seconds=60)
    store.mail.publish("news", b"broadcast", ttl_seconds=60)
    assert news.receive(timeout_seconds=20) == [b"broadcast"]
    assert weather.receive(timeout_seconds=0.05) == []
    assert store.mail.receive("news", timeout_seconds=0) == [b"mail"]
    news.close()
    weather.close()


def test_a_sleeping_subscriber_is_woken(store: Store, open_store: OpenStore) -> None:
    publish = partial(open_store().mail.publish, "news", b"hello", ttl_seconds=60)
    subscription = store.mail.subscribe("news")
    takes_less_than(0.5, lambda: seconds_to_wake(partial(subscription.receive, timeout_seconds=20), publish))
    subscription.close()


def test_mail_from_another_process_wakes_both_kinds(durable_store: Store, durable_url: str, namespace: str) -> None:
    def seconds_to_wake_both() -> float:
        gate = barrier(2)
        child = Errand(send_when_told, durable_url, namespace, b"hi", gate)
        subscription = durable_store.mail.subscribe("news")
        by_box = in_thread(lambda: (durable_store.mail.receive("box", timeout_seconds=60), time.time()))
        by_channel = in_thread(lambda: (subscription.receive(timeout_seconds=60), time.time()))
        gate.wait(60)
        sent = child.result()
        found = [waiter.result(60) for waiter in (by_box, by_channel)]
        subscription.close()
        assert [messages for messages, _ in found] == [[b"hi"]] * 2
        return max(at for _, at in found) - sent

    takes_less_than(0.5, seconds_to_wake_both)


def test_an_expired_message_is_never_delivered(store: Store) -> None:
    subscription = store.mail.subscribe("news")
    store.mail.send("box", b"late", ttl_seconds=0.05)
    store.mail.publish("news", b"late", ttl_seconds=0.05)
    store.mail.send("box", b"kept", ttl_seconds=60)
    store.mail.publish("news", b"kept", ttl_seconds=60)
    let_time_pass(store, 0.1)
    assert store.mail.receive("box", timeout_seconds=0) == [b"kept"]
    assert subscription.receive(timeout_seconds=20) == [b"kept"]
    assert subscription.receive(timeout_seconds=0.05) == []
    subscription.close()
