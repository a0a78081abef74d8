"""Notification between processes over Postgres: none is forgotten, and a lot of it does not wake everyone."""

import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg import sql

from stem.backends.postgres.connection.address import address
from stem.backends.postgres.connection.connections import PostgresClient
from stem.backends.postgres.connection.deadline_connection import Row
from stem.backends.postgres.notify import notifier
from stem.backends.postgres.notify.notifier import (
    KINDS,
    Notification,
    Notifier,
    channel_for,
    channel_of,
    notification,
    payloads,
)
from stem.core.settings.app import Settings
from support.background import in_thread
from support.servers import PostgresServer
from support.until import until


class GatedLink(PostgresClient):
    """Sends while the gate is open."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(address(server.url, Settings()), 5.0)
        self.callers: list[str] = []
        self.gate = threading.Event()
        self.gate.set()

    def rows(self, *args: Any, **kwargs: Any) -> list[Row]:
        self.callers.append(threading.current_thread().name)
        assert self.gate.wait(20)
        return super().rows(*args, **kwargs)


@pytest.fixture
def client(postgres_server: PostgresServer) -> Iterator[GatedLink]:
    opened = GatedLink(postgres_server)
    yield opened
    opened.close()


def test_news_that_come_in_while_others_are_being_sent_are_told(
    client: GatedLink, postgres_server: PostgresServer, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "_GAP_SECONDS", 0.3)
    channel = channel_of("stem", namespace)
    ringing = Notifier(client, channel)
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        listen(connection, channel, "work")
        ringing.notify(notification(["first"]))
        client.gate.clear()
        # Each by a thread of the notifier's own, or, if it came long after the one before, by that in which it is rung.
        second = in_thread(lambda: ringing.notify(notification(["second"])))
        until(lambda: len(client.callers) == 2)
        third = in_thread(lambda: ringing.notify(notification(["third"])))
        until(lambda: third.done() or len(client.callers) == 3)
        client.gate.set()
        heard = [told.payload for told in connection.notifies(timeout=10, stop_after=3)]
    for rung in (second, third):
        rung.result(10)
    ringing.close()
    assert "third" in heard[-1]


def test_a_thousand_endings_are_told_by_name_and_not_as_something_for_everyone(
    client: GatedLink, postgres_server: PostgresServer, namespace: str
) -> None:
    channel = channel_of("stem", namespace)
    told = notification(["next"], ended=[f"task-{number}" for number in range(1000)])
    ringing = Notifier(client, channel)
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        listen(connection, channel, *KINDS)
        ringing.notify(told)
        heard = Notification()

        def have_heard_all() -> bool:
            for each in connection.notifies(timeout=0.1):
                heard.add(msgspec.json.decode(each.payload, type=Notification))
            return heard.lost or heard == told

        until(have_heard_all)
    ringing.close()
    assert not heard.lost


def test_more_than_can_be_told_is_something_for_everyone_who_waits_for_its_kind() -> None:
    many = notification([f"queue-{number:06}" for number in range(1000)])
    assert payloads("c", many) == (["c_work", "c_log"], ['{"lost":true}', '{"logged":true}'])


def test_each_kind_of_news_is_told_to_those_who_wait_for_it_alone() -> None:
    pushed, ended, mailed = (
        notification(["q"]),
        notification(ended=["a"], logged=False),
        notification(boxes=["b"], logged=False),
    )
    assert [payloads("c", each)[0] for each in (pushed, ended, mailed)] == [
        ["c_work", "c_log"],
        ["c_ended"],
        ["c_mail"],
    ]


def listen(connection: psycopg.Connection[Any], channel: str, *kinds: str) -> None:
    for kind in kinds:
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel_for(channel, kind))))
