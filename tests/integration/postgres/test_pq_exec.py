"""Statements sent in one go: each stands for itself, whatever becomes of the others, and whatever libpq can do."""

from collections.abc import Iterator
from time import monotonic

import pytest

from stem.backends.postgres.connection.address import address
from stem.backends.postgres.connection.connections import PostgresClient
from stem.backends.postgres.connection.pq_exec import PreparedStatements, Statement
from stem.core.errors import StoreUnavailable, UsageError
from stem.core.settings.app import Settings
from support.servers import PostgresServer

FAILS = Statement(b"SELECT 1 / $1::integer", ("0",))


@pytest.fixture(params=["in one go", "by an old libpq"])
def client(
    request: pytest.FixtureRequest, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PostgresClient]:
    if request.param == "by an old libpq":
        monkeypatch.setattr("psycopg.capabilities.has_pipeline", lambda: False)
    opened = PostgresClient(address(postgres_server.url, Settings()), 30.0, pool_size=1)
    opened.rows("CREATE TABLE IF NOT EXISTS said (word text)")
    opened.rows("TRUNCATE said")
    yield opened
    opened.close()


def test_one_that_follows_and_fails_is_told_and_takes_nothing_back(client: PostgresClient) -> None:
    with pytest.raises(UsageError, match="division by zero"):
        client.cells(_say("kept"), FAILS)
    assert _said(client) == {"kept"}


def test_one_that_fails_is_told_and_the_connection_goes_on(client: PostgresClient) -> None:
    with pytest.raises(UsageError, match="division by zero"):
        client.cells(FAILS, _say("along"))
    assert client.cells(_say("next")) == [("next",)]
    assert "next" in _said(client)


def test_more_than_the_sockets_hold_goes_through_both_ways(client: PostgresClient) -> None:
    much = "é" * 4_000_000
    assert client.cells(Statement(b"SELECT $1, NULL", (much,)), Statement(b"SELECT $1::text", (much,))) == [
        (much, None)
    ]


def test_a_text_that_libpq_would_cut_short_is_refused(client: PostgresClient) -> None:
    with pytest.raises(UsageError, match="NUL"):
        client.cells(_say("half\x00lost"))
    assert _said(client) == set()


def test_no_answer_by_the_deadline_ends_the_call_and_what_the_server_does_for_it(client: PostgresClient) -> None:
    began = monotonic()
    with pytest.raises(StoreUnavailable, match="did not answer"):
        client.cells(Statement(b"SELECT pg_sleep(60)", ()), timeout_seconds=0.2)
    assert monotonic() - began < 15
    assert client.cells(_say("next")) == [("next",)]  # on another connection, once the only one is back


def test_frequent_statements_are_prepared_on_the_server(client: PostgresClient) -> None:
    for _ in range(3):
        client.cells(_say("again"), _say("along"))
    kept = client.rows("SELECT statement FROM pg_prepared_statements WHERE generic_plans + custom_plans > 0")
    assert kept == [(_say("").query.decode(),)]
    assert client.cells(_say("last")) == [("last",)]


def test_a_pooler_that_brings_another_server_loses_nothing_and_doubles_nothing(client: PostgresClient) -> None:
    for _ in range(3):
        client.cells(_say("before"))
    client.rows("DEALLOCATE ALL")
    client.rows("TRUNCATE said")
    for _ in range(4):
        assert client.cells(_say("after"), _say("along")) == [("after",)]
    counted = client.rows("SELECT word, count(*) FROM said GROUP BY word ORDER BY word")
    assert counted == [("after", 4), ("along", 4)]


def test_a_pooler_that_brings_another_server_for_the_second_alone_does_the_first_once(client: PostgresClient) -> None:
    second = Statement(b"INSERT INTO said VALUES ('second')", ())
    for _ in range(4):
        client.cells(second)
    name = client.rows("SELECT name FROM pg_prepared_statements")[0][0]
    client.rows(f"DEALLOCATE {name}")
    client.rows("TRUNCATE said")
    assert client.cells(_say("first"), second) == [("first",)]
    assert sorted(client.rows("SELECT word FROM said")) == [("first",), ("second",)]


def test_a_statement_that_another_client_had_kept_is_used(client: PostgresClient) -> None:
    for _ in range(3):
        client.cells(_say("known"))
    # As if a pooler had given this server to a new client.
    client._done(lambda conn: setattr(conn.pq, "prepared", PreparedStatements()), monotonic() + 30)
    for _ in range(4):
        assert client.cells(_say("anew")) == [("anew",)]
    assert len(client.rows("SELECT name FROM pg_prepared_statements")) == 1


def _say(word: str) -> Statement:
    return Statement(b"INSERT INTO said VALUES ($1) RETURNING word", (word,))


def _said(client: PostgresClient) -> set[str]:
    return {word for (word,) in client.rows("SELECT word FROM said")}
