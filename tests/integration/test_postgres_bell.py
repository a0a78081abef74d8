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
from stem.backends.postgres.bell import KINDS, Bell, News, channel_for, channel_of, news, notices
from stem.backends.postgres.link import Link
from stem.backends.postgres.speaking import Row
from stem.core.config import Settings
from support.beside import in_thread
from support.servers import PostgresServer
from support.until import until


class GatedLink(Link):
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
        listen(ear, channel, "work")
        ringing.ring(news(["first"]))
        link.gate.clear()
        # Each by a thread of the bell's own, or, if it came long after the one before, by that in which it is rung.
        second = in_thread(lambda: ringing.ring(news(["second"])))
        until(lambda: len(link.callers) == 2)
        third = in_thread(lambda: ringing.ring(news(["third"])))
        until(lambda: third.done() or len(link.callers) == 3)
        link.gate.set()
        heard = [told.payload for told in ear.notifies(timeout=10, stop_after=3)]
    for rung in (second, third):
        rung.result(10)
    ringing.close()
    assert "third" in heard[-1]


def test_a_thousand_endings_are_told_by_name_and_not_as_something_for_everyone(
    link: GatedLink, postgres_server: PostgresServer, namespace: str
) -> None:
    channel = channel_of("stem", namespace)
    told = news(["next"], ended=[f"task-{number}" for number in range(1000)])
    ringing = Bell(link, channel)
    with psycopg.connect(postgres_server.url, autocommit=True) as ear:
        listen(ear, channel, *KINDS)
        ringing.ring(told)
        heard = News()

        def have_heard_all() -> bool:
            for each in ear.notifies(timeout=0.1):
                heard.add(msgspec.json.decode(each.payload, type=News))
            return heard.lost or heard == told

        until(have_heard_all)
    ringing.close()
    assert not heard.lost


def test_more_than_can_be_told_is_something_for_everyone_who_waits_for_its_kind() -> None:
    many = news([f"queue-{number:06}" for number in range(1000)])
    assert notices("c", many) == (["c_work", "c_log"], ['{"lost":true}', '{"logged":true}'])


def test_each_kind_of_news_is_told_to_those_who_wait_for_it_alone() -> None:
    pushed, ended, mailed = news(["q"]), news(ended=["a"], logged=False), news(boxes=["b"], logged=False)
    assert [notices("c", each)[0] for each in (pushed, ended, mailed)] == [["c_work", "c_log"], ["c_ended"], ["c_mail"]]


def listen(ear: psycopg.Connection[Any], channel: str, *kinds: str) -> None:
    for kind in kinds:
        ear.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel_for(channel, kind))))
