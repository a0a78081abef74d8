"""What tasks that wait for others cost the rest on Redis: their fields are their own, and their records hold up nobody's."""

from collections.abc import Iterator

import msgspec
import pytest
import redis

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.settings.app import Retention, Settings
from support.builders import a_push, done, pushes
from support.servers import RedisServer
from support.stores.calls import WORKER, claim, let_time_pass
from support.stores.graphs import take
from support.until import until

BRIEF = Retention(results_seconds=0.2, events_seconds=0.2, events_count=1000)
PLAIN, ENDED, LINKED = 27, 22, 36  # fields


@pytest.fixture
def server(redis_server: RedisServer) -> Iterator["redis.Redis"]:
    with redis.Redis(port=redis_server.port) as client:
        yield client


@pytest.fixture
def store(redis_server: RedisServer, namespace: str) -> Iterator[Store]:
    opened = connect(redis_server.url, Settings(namespace=namespace, retention=BRIEF))
    yield opened
    opened.upkeep.close()


def test_only_tasks_that_wait_for_others_or_are_waited_for_have_more_fields(
    store: Store, server: "redis.Redis", namespace: str
) -> None:
    def widths(*ids: str) -> list[int]:
        packed = [server.get(f"stem:{{{namespace}}}:t:{id}") for id in ids]
        return [len(msgspec.msgpack.decode(each)) for each in packed if isinstance(each, bytes)]

    store.broker.push([*pushes("plain", "first"), a_push("then", after=["first"])])
    assert widths("plain", "first", "then") == [PLAIN, LINKED, LINKED]
    held = take(store, "plain", "first")
    assert widths("plain", "first") == [PLAIN, LINKED]
    store.broker.settle([done(each) for each in held], worker=WORKER)
    assert widths("plain", "first") == [ENDED, LINKED]


def test_a_record_that_others_need_holds_up_no_sweeping(store: Store, server: "redis.Redis", namespace: str) -> None:
    store.broker.push(
        [*pushes("first", "other"), a_push("later", delay=3600), a_push("then", after=["first", "later"])]
    )
    store.broker.settle([done(each) for each in take(store, "first", "other")], worker=WORKER)
    let_time_pass(store, BRIEF.results_seconds)
    until(lambda: store.upkeep.prune() >= 0 and not server.exists(f"stem:{{{namespace}}}:t:other"))
    assert store.results.get(["first"]) == {}
    assert list(store.results.get(["first", "other"], past_retention=True)) == ["first"]
    store.broker.cancel(["then"])
    until(lambda: store.upkeep.prune() >= 0 and not server.exists(f"stem:{{{namespace}}}:t:first"))
    assert claim(store) == []
