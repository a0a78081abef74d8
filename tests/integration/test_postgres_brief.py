"""The store of a command that is soon over: it says what the whole store says, and is the whole store where it must be."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import psycopg
import pytest

from stem.backends import connect, connect_briefly
from stem.backends.postgres.address import address
from stem.backends.postgres.brief import BriefStore
from stem.backends.postgres.brieflink import BriefLink
from stem.contracts.store import Store
from stem.core.config import Settings
from stem.core.errors import StoreRefused, StoreUnavailable, UsageError
from stem.core.heartbeat import Heartbeat
from support.servers import PostgresServer
from support.until import until

BEAT = Heartbeat(
    worker_id="w1", namespace="n", host="ü", pid=1, uptime_seconds=2.5, concurrency=4, in_flight=1, queues=["default"]
)


@pytest.fixture
def whole(postgres_server: PostgresServer, namespace: str) -> Iterator[Store]:
    opened = connect(postgres_server.url, Settings(namespace=namespace))
    yield opened
    opened.upkeep.close()


@pytest.fixture
def brief(whole: Store, postgres_server: PostgresServer, namespace: str) -> Iterator[Store]:
    opened = connect_briefly(postgres_server.url, Settings(namespace=namespace))
    assert isinstance(opened, BriefStore)
    yield opened
    opened.upkeep.close()


def test_what_one_says_the_other_hears(brief: Store, whole: Store) -> None:
    whole.heartbeats.beat(BEAT, ttl_seconds=60)
    assert [(pulse.heartbeat, pulse.age_seconds < 60) for pulse in brief.heartbeats.all()] == [(BEAT, True)]
    heard = whole.mail.subscribe("all")
    brief.mail.publish("all", b"\x00\xff to all", ttl_seconds=60)
    brief.mail.send("box", b'{"to": "one"}', ttl_seconds=60)
    assert heard.receive(timeout_seconds=10) == [b"\x00\xff to all"]
    assert whole.mail.receive("box", timeout_seconds=10) == [b'{"to": "one"}']
    whole.mail.send("reply", b"\x01%s\\", ttl_seconds=60)
    assert brief.mail.receive("reply", timeout_seconds=10) == [b"\x01%s\\"]
    assert abs(brief.upkeep.now() - whole.upkeep.now()) < 10


def test_a_reply_wakes_whoever_waits_for_it(brief: Store, whole: Store) -> None:
    assert brief.mail.receive("reply", timeout_seconds=1.0) == []  # it listens from here on
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(brief.mail.receive, "reply", timeout_seconds=10)
        whole.mail.send("reply", b"here", ttl_seconds=60)
        assert waiting.result(10) == [b"here"]


def test_its_other_seams_are_those_of_the_whole_store(brief: Store, whole: Store) -> None:
    assert brief.locks.acquire("one", owner="me", ttl_seconds=60)
    assert whole.locks.owner("one") == "me"
    assert brief.upkeep.diagnose().backend == "postgres"


def test_a_connection_that_was_cut_is_replaced(brief: Store, postgres_server: PostgresServer) -> None:
    brief.upkeep.now()
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        ours = "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stem'"
        cut = [pid for pid, _ in admin.execute(ours).fetchall()]
        until(lambda: not admin.execute("SELECT FROM pg_stat_activity WHERE pid = ANY (%s)", [cut]).fetchall())
    assert brief.upkeep.now() > 0


def test_what_the_server_refuses_or_leaves_unanswered_is_told_in_a_sentence(postgres_server: PostgresServer) -> None:
    link = BriefLink(address(postgres_server.url, Settings()), 30.0)
    began = monotonic()
    with pytest.raises(StoreUnavailable, match="did not answer within"):
        link.rows("SELECT pg_sleep(60)", timeout_seconds=0.2)
    assert monotonic() - began < 15
    with pytest.raises(UsageError, match="division by zero"):
        link.rows("SELECT 1 / %s::integer", (0,))
    with pytest.raises(UsageError, match="NUL"):
        link.rows("SELECT %(word)s", {"word": "half\x00lost"})
    with pytest.raises(UsageError, match="half of a character"):
        link.rows("SELECT %(word)s", {"word": "\ud800"})
    assert link.rows("SELECT %s::bigint, %s::text, %s::bool, NULL", (7, "x", True)) == [(7, "x", True, None)]
    link.close()
    with pytest.raises(StoreUnavailable, match="was closed"):
        link.rows("SELECT 1")


def test_where_there_is_no_schema_the_whole_store_makes_one(postgres_server: PostgresServer, namespace: str) -> None:
    url = f"{postgres_server.url}&schema=brief_{namespace}"
    opened = connect_briefly(url, Settings(namespace=namespace))
    assert not isinstance(opened, BriefStore) and opened.heartbeats.all() == []
    opened.upkeep.close()
    again = connect_briefly(url, Settings(namespace=namespace))
    assert isinstance(again, BriefStore) and again.heartbeats.all() == []
    again.upkeep.close()


def test_what_keeps_the_whole_store_from_opening_is_what_is_told(postgres_server: PostgresServer) -> None:
    with pytest.raises(StoreRefused, match="nowhere"):
        connect_briefly(f"{postgres_server.url}&dbname=nowhere", Settings())
