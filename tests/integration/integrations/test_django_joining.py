"""What is enqueued inside `transaction.atomic()` shares the fate of the transaction."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

from stem import Stem, group
from stem.testing import eager, run_pending
from support.client.django_site import django_alias
from support.servers import PostgresServer, RedisServer

ALIAS = "shop"


class Undone(Exception):
    pass


@contextmanager
def site(database: dict[str, Any], **stem: Any) -> Iterator[Stem]:
    """A project with one database, and the app that its settings make."""
    from stem.integrations.django import DjangoStem

    with django_alias(database, ALIAS), override_settings(STEM={"DATABASE": ALIAS, **stem}):
        with DjangoStem() as app:
            app.task(name="work")(lambda number=1: number)
            assert app.store.broker.depth() == {}  # as `manage.py migrate` creates the tables
            yield app


def sqlite(place: Path) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": place / "shop.sqlite3"}


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def app(request: pytest.FixtureRequest, tmp_path: Path, namespace: str) -> Iterator[Stem]:
    """On the first two the store is the database; on the last it is another server."""
    match request.param:
        case "sqlite":
            made = site(sqlite(tmp_path), NAMESPACE=namespace)
        case "postgres":
            server: PostgresServer = request.getfixturevalue("postgres_server")
            place = {"NAME": "postgres", "USER": "postgres", "HOST": server.socket_directory, "PORT": server.port}
            made = site({"ENGINE": "django.db.backends.postgresql", **place}, NAMESPACE=namespace)
        case _:
            redis: RedisServer = request.getfixturevalue("redis_server")
            made = site(sqlite(tmp_path), NAMESPACE=namespace, BROKER_URL=redis.url)
    with made as opened:
        yield opened


def waiting(app: Stem) -> int:
    depth = app.store.broker.depth().get("default")
    return 0 if depth is None else depth.ready


def test_a_task_is_there_with_the_commit_and_not_before(app: Stem) -> None:
    with transaction.atomic(using=ALIAS):
        handle = app.tasks["work"].enqueue(5)
        canvas = group(app.tasks["work"].s(1), app.tasks["work"].s(2)).submit()
        assert waiting(app) == 0
    assert waiting(app) == 3
    assert run_pending(app) == 3
    assert (handle.get(5), canvas.get(5)) == (5, [1, 2])


def test_a_rollback_leaves_nothing(app: Stem) -> None:
    with suppress(Undone), transaction.atomic(using=ALIAS):
        app.tasks["work"].enqueue(5)
        app.tasks["work"].enqueue_many([{"number": 1}, {"number": 2}])
        raise Undone
    assert waiting(app) == 0


def test_a_savepoint_that_is_rolled_back_takes_its_tasks_with_it(app: Stem) -> None:
    with transaction.atomic(using=ALIAS):
        app.tasks["work"].enqueue(1)
        with suppress(Undone), transaction.atomic(using=ALIAS):
            app.tasks["work"].enqueue(2)
            raise Undone
    assert waiting(app) == 1


def test_what_a_task_enqueues_inside_a_transaction_shares_its_fate_as_well(app: Stem) -> None:
    from stem import TaskContext

    @app.task(name="order", max_retries=0)
    def order(ctx: TaskContext, is_good: bool) -> None:
        with transaction.atomic(using=ALIAS):
            ctx.enqueue(app.tasks["work"], 7)
            if not is_good:
                raise Undone

    for is_good in (False, True):
        order.enqueue(is_good)
        run_pending(app, limit=1)
        assert waiting(app) == int(is_good)


def test_outside_of_transactions_a_task_is_there_at_once(app: Stem) -> None:
    app.tasks["work"].enqueue(1)
    assert waiting(app) == 1


def test_an_eager_test_runs_tasks_at_once_also_inside_a_transaction(app: Stem) -> None:
    with eager(app), transaction.atomic(using=ALIAS):
        assert app.tasks["work"].enqueue(4).get() == 4
    assert waiting(app) == 0
