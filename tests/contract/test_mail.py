"""Mailboxes and broadcast: small messages that reach whom they should, once, and never late."""

import time
from functools import partial

from conftest import OpenStore
from stem.contracts.store import Store
from support.asking import claim, let_time_pass
from support.beside import Errand, barrier, in_thread, is_waiting, timed, together
from support.builders import a_push
from support.errands import send_when_told


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
    assert store.mail.receive("box", timeout_seconds=5) == [message]
    assert subscription.receive(timeout_seconds=5) == [message]
    subscription.close()


def test_a_sleeping_receiver_is_woken(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    waiter = in_thread(lambda: timed(lambda: store.mail.receive("box", timeout_seconds=20)))
    assert is_waiting(waiter)
    sent = time.monotonic()
    other.mail.send("box", b"hello", ttl_seconds=60)
    messages, at = waiter.result(20)
    assert messages == [b"hello"] and at - sent < 0.5


def test_receiving_ends_on_time(store: Store) -> None:
    subscription = store.mail.subscribe("news")
    for receive in (
        partial(store.mail.receive, "box", timeout_seconds=0.2),
        partial(subscription.receive, timeout_seconds=0.2),
    ):
        began = time.monotonic()
        assert receive() == []
        assert 0.19 <= time.monotonic() - began < 0.7
    subscription.close()


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
        while batch := subscription.receive(timeout_seconds=1 if len(got) < 3 else 0):
            got += batch
        assert got == [b"n0", b"n1", b"n2"]
        assert subscription.receive(timeout_seconds=0.05) == []
        subscription.close()


def test_a_broadcast_reaches_an_owner_that_holds_many_deliveries(store: Store) -> None:
    subscription = store.mail.subscribe("news")
    store.broker.push([a_push() for _ in range(300)])
    assert len(claim(store, limit=300)) == 300
    store.mail.publish("news", b"stop", ttl_seconds=60)
    assert subscription.receive(timeout_seconds=5) == [b"stop"]
    subscription.close()


def test_a_subscription_takes_no_more_than_asked_for_and_keeps_the_rest(store: Store) -> None:
    subscription = store.mail.subscribe("news")
    for n in range(5):
        store.mail.publish("news", b"n%d" % n, ttl_seconds=60)
    got: list[bytes] = []
    while len(got) < 5:
        batch = subscription.receive(timeout_seconds=5, limit=2)
        assert 1 <= len(batch) <= 2
        got += batch
    assert got == [b"n%d" % n for n in range(5)]
    subscription.close()


def test_a_subscription_does_not_see_what_was_published_before(store: Store) -> None:
    early = store.mail.subscribe("news")
    store.mail.publish("news", b"old", ttl_seconds=60)
    late = store.mail.subscribe("news")
    store.mail.publish("news", b"new", ttl_seconds=60)
    assert late.receive(timeout_seconds=5) == [b"new"]
    assert late.receive(timeout_seconds=0.05) == []
    assert early.receive(timeout_seconds=5, limit=1) == [b"old"]
    late.close()
    early.close()


def test_channels_and_boxes_of_one_name_are_apart(store: Store) -> None:
    news, weather = store.mail.subscribe("news"), store.mail.subscribe("weather")
    store.mail.send("news", b"mail", ttl_seconds=60)
    store.mail.publish("news", b"broadcast", ttl_seconds=60)
    assert news.receive(timeout_seconds=5) == [b"broadcast"]
    assert weather.receive(timeout_seconds=0.05) == []
    assert store.mail.receive("news", timeout_seconds=0) == [b"mail"]
    news.close()
    weather.close()


def test_a_sleeping_subscriber_is_woken(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    subscription = store.mail.subscribe("news")
    waiter = in_thread(lambda: timed(lambda: subscription.receive(timeout_seconds=20)))
    assert is_waiting(waiter)
    sent = time.monotonic()
    other.mail.publish("news", b"hello", ttl_seconds=60)
    messages, at = waiter.result(20)
    assert messages == [b"hello"] and at - sent < 0.5
    subscription.close()


def test_mail_from_another_process_wakes_both_kinds(durable_store: Store, durable_url: str, namespace: str) -> None:
    gate = barrier(2)
    child = Errand(send_when_told, durable_url, namespace, b"hi", gate)
    subscription = durable_store.mail.subscribe("news")
    by_box = in_thread(lambda: (durable_store.mail.receive("box", timeout_seconds=20), time.time()))
    by_channel = in_thread(lambda: (subscription.receive(timeout_seconds=20), time.time()))
    gate.wait(60)
    sent = child.result()
    for waiter in (by_box, by_channel):
        messages, at = waiter.result(20)
        assert messages == [b"hi"] and at - sent < 0.5
    subscription.close()


def test_an_expired_message_is_never_delivered(store: Store) -> None:
    subscription = store.mail.subscribe("news")
    store.mail.send("box", b"late", ttl_seconds=0.05)
    store.mail.publish("news", b"late", ttl_seconds=0.05)
    store.mail.send("box", b"kept", ttl_seconds=60)
    store.mail.publish("news", b"kept", ttl_seconds=60)
    let_time_pass(store, 0.1)
    assert store.mail.receive("box", timeout_seconds=0) == [b"kept"]
    assert subscription.receive(timeout_seconds=5) == [b"kept"]
    assert subscription.receive(timeout_seconds=0.05) == []
    subscription.close()
