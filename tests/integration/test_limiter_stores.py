"""What only some stores must get right about limits: tables added to an older schema, and locks that never cross."""

import sqlite3
from pathlib import Path

import psycopg

from stem.backends import connect
from stem.backends.postgres.statements import VERSION
from stem.backends.sqlite.statements import SQL, migrations
from stem.contracts.limiter import Bucket, Place
from stem.core.settings.app import Settings
from support.background import Errand, barrier
from support.servers import PostgresServer
from support.stores.limiter_targets import take_in_any_order

BUCKET = Bucket("k", tokens=1, per_seconds=3600, burst=1)
PLACE = Place("k", holder="me", limit=1, ttl_seconds=60)


def test_an_sqlite_file_of_the_first_schema_gets_limits(tmp_path: Path) -> None:
    file = sqlite3.connect(tmp_path / "stem.db")
    for statement in [SQL["meta_create"], *migrations()[1]]:
        file.execute(statement)
    file.execute(SQL["meta_put"], ("schema_version", "1"))
    file.commit()
    file.close()
    works_at(f"sqlite:///{tmp_path}/stem.db")


def test_a_postgres_schema_without_limits_gets_them(postgres_server: PostgresServer) -> None:
    url = postgres_server.url + "&schema=unlimited"
    connect(url, Settings()).upkeep.close()
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute("DROP TABLE unlimited.buckets, unlimited.places, unlimited.holders CASCADE")
        admin.execute("UPDATE unlimited.version SET version = 2")
        works_at(url)
        assert admin.execute("SELECT version FROM unlimited.version").fetchall() == [(VERSION,)]


def test_takers_that_name_their_keys_in_any_order_never_deadlock(
    postgres_server: PostgresServer, namespace: str
) -> None:
    buckets = [Bucket(f"k{n}", tokens=1000, per_seconds=1, burst=1000) for n in range(20)]
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        before = deadlocks(admin)
        gate = barrier(4)
        orders = [buckets, buckets[::-1], buckets[10:] + buckets[:10], buckets[::2] + buckets[1::2]]
        takers = [Errand(take_in_any_order, postgres_server.url, namespace, order, 100, gate) for order in orders]
        assert [taker.result() for taker in takers] == [100] * 4
        assert deadlocks(admin) == before


def works_at(url: str) -> None:
    store = connect(url, Settings())
    assert [wait == 0.0 for wait in store.limiter.take([BUCKET, BUCKET])] == [True, False]
    assert store.limiter.hold([PLACE]) == [True]
    store.upkeep.close()


def deadlocks(admin: "psycopg.Connection[tuple[int]]") -> int:
    """As the server counts them, also those that a call got over by trying again."""
    admin.execute("SELECT pg_stat_force_next_flush()")
    row = admin.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
    return row[0] if row else 0
