"""News between processes over Postgres: none is forgotten, and a lot of it does not wake everyone."""

import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg import sql

from stem.backends.postgres import bell
from stem.backends.postgres.address import address
from stem.backends.postgres.bell import Bell, News, channel_of, news, payloads
from stem.backends.postgres.link import Link
from stem.backends.postgres.speaking import Row
from stem.core.config import Settings
from support.servers import PostgresServer


class GatedLink(Link):
    """Sends while the gate is open."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(address(server.url, Settings()), 5.0)
        self.sending = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def rows(self, *args: Any, **kwargs: Any) -> list[Row]:
        self.sending.set()
        assert self.gate.wait(10)
        return super().rows(*args, **kwargs)


@pytest.fixture
def link(postgres_server: PostgresServer) -> Iterator[GatedLink]:
    opened = GatedLink(postgres_server)
    yield opened
    opened.close()


def test_news_that_come_in_while_others_are_being_sent_are_told(
    link: GatedLink, postgres_server: PostgresServer, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell, "_GAP_SECONDS", 0.3)
    channel = channel_of("stem", namespace)
    ringing = Bell(link, channel)
    with psycopg.connect(postgres_server.url, autocommit=True) as ear:
        ear.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        ringing.ring(news(["first"]))
        link.sending.clear()
        link.gate.clear()
        ringing.ring(news(["second"]))
        assert link.sending.wait(10)  # by a thread of the bell's own
        ringing.ring(news(["third"]))
        link.gate.set()
        heard = [told.payload for told in ear.notifies(timeout=5, stop_after=3)]
    ringing.close()
    assert "third" in heard[-1]


def test_a_thousand_endings_are_told_by_name_and_not_as_something_for_everyone(
    link: GatedLink, postgres_server: PostgresServer, namespace: str
) -> None:
    channel = channel_of("stem", namespace)
    told = news(["next"], ended=[f"task-{number}" for number in range(1000)])
    ringing = Bell(link, channel)
    with psycopg.connect(postgres_server.url, autocommit=True) as ear:
        ear.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        ringing.ring(told)
        heard = [msgspec.json.decode(each.payload, type=News) for each in ear.notifies(timeout=0.5)]
    ringing.close()
    assert not any(each.lost for each in heard)
    assert set().union(*(each.ended for each in heard)) == told.ended
    assert set().union(*(each.queues for each in heard)) == {"next"}


def test_more_than_can_be_told_is_something_for_everyone() -> None:
    assert payloads(news([f"queue-{number:06}" for number in range(1000)])) == ['{"lost":true}']
