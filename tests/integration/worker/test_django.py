"""Tasks of a Django project survive a restart of its database: stale connections are closed around each task."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from stem import Stem
from stem.testing import eager
from support.client.django_site import django_alias
from support.servers import PostgresServer
from support.workers.processes import Desk, desk, worker_here

SHOP = "support.worker_apps.django_shop:app"


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    """One of its own, for it is restarted."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def shop(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database: PostgresServer
) -> Iterator[Desk]:
    """One isolate, so that a second task meets what the first has left."""
    monkeypatch.setenv("SHOP_DATABASE_HOST", database.socket_directory)
    monkeypatch.setenv("SHOP_CONNECTIONS", getattr(request, "param", "of one task"))
    url = f"sqlite:///{tmp_path}/stem.db"
    with worker_here(url, "django", SHOP, concurrency=1), desk(url, "django") as opened:
        yield opened


@pytest.mark.parametrize("name", ["isolated", "inline", "coroutine"])
def test_a_task_after_a_restart_of_the_database_succeeds_at_once(
    shop: Desk, database: PostgresServer, name: str
) -> None:
    _, before = shop.call(name)
    database.restart()
    _, after = shop.value(shop.send(name, {"max_retries": 0}))
    assert after == before, "the same process served both, or nothing is shown"


@pytest.mark.parametrize("shop", ["persistent"], indirect=True)
@pytest.mark.parametrize("name", ["isolated", "coroutine"])
def test_a_persistent_connection_that_broke_fails_one_attempt_and_no_more(
    shop: Desk, database: PostgresServer, name: str
) -> None:
    first, process = shop.call(name)
    assert shop.call(name) == [first, process], "it persists"
    database.restart()
    served_by, same = shop.value(shop.send(name, {"max_retries": 1}))
    assert same == process and served_by != first


def test_the_transaction_of_a_test_that_runs_tasks_eagerly_goes_on(database: PostgresServer) -> None:
    app = Stem("memory://eager-django")
    where: dict[str, Any] = {"NAME": "postgres", "USER": "postgres", "HOST": database.socket_directory}
    with django_alias({"ENGINE": "django.db.backends.postgresql", **where}) as connection:

        @app.task(name="count")
        def count() -> int:
            with connection.cursor() as cursor:
                cursor.execute("select count(*) from kept")
                return int(cursor.fetchone()[0])

        with eager(app), transaction.atomic(using="shop"), connection.cursor() as cursor:
            cursor.execute("create temporary table kept (id int) on commit drop")
            cursor.execute("insert into kept values (1)")
            assert count.enqueue().get() == 1
            assert count.enqueue().get() == 1
