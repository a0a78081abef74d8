"""An enqueue waits for a store that is away for a moment, and stores its task once."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stem import Stem, StoreUnavailable
from stem.core.record import TaskFilter
from stem.core.settings.app import Settings
from support.stores.outages import Outage, PostgresRestarted, RedisKilled, SqliteLocked
from support.until import until
from support.workers.processes import environment

SHORT = 2.0
PATIENCE = 20.0  # of the app: well beyond how long a busy machine takes to start a server


@pytest.fixture(params=[RedisKilled, PostgresRestarted, SqliteLocked], ids=["redis", "postgres", "sqlite"])
def outage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Outage]:
    opened = request.param(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def app(outage: Outage, namespace: str) -> Iterator[Stem]:
    with an_app(outage, namespace, PATIENCE) as opened:
        opened.enqueue("first", check=False)
        yield opened
        outage.end()


def test_an_open_app_enqueues_when_the_store_is_back(outage: Outage, app: Stem) -> None:
    outage.begin()
    back = threading.Timer(SHORT, outage.end)
    back.start()
    ids = [app.enqueue("second", check=False).id, app.enqueue("third", check=False, id="mine").id]
    back.join()
    assert stored(app) == ["first", "second", "third"]
    assert ids[1] == "mine"


def test_a_subscription_goes_on_where_it_was_when_the_store_is_back(outage: Outage, app: Stem) -> None:
    events = app.events.subscribe(after="", timeout=PATIENCE)
    assert next(events).name == "first"
    outage.begin()
    back = threading.Timer(SHORT, outage.end)
    back.start()
    app.enqueue("second", check=False)
    app.enqueue("third", check=False)
    assert [next(events).name, next(events).name] == ["second", "third"]
    back.join()
    events.close()
    assert list(events) == []


def test_the_command_line_does_so_as_well(outage: Outage, app: Stem, namespace: str) -> None:
    outage.begin()
    command = [sys.executable, "-m", "stem", "enqueue", "second"]
    variables = {**environment(outage.url, namespace), "STEM_STORE_TIMEOUT": str(PATIENCE)}
    enqueue = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    back = threading.Timer(SHORT, outage.end)
    back.start()
    out, err = enqueue.communicate(timeout=60)
    back.join()
    assert (enqueue.returncode, err) == (0, ""), out
    until(lambda: stored(app) == ["first", "second"])


def test_a_store_that_stays_away_is_told_of_at_the_deadline(outage: Outage, namespace: str) -> None:
    with an_app(outage, namespace, 1.0) as app:
        app.enqueue("first", check=False)
        outage.begin()
        with pytest.raises(StoreUnavailable):
            app.enqueue("second", check=False)
        outage.end()


def an_app(outage: Outage, namespace: str, timeout_seconds: float) -> Stem:
    return Stem(settings=Settings(broker_url=outage.url, namespace=namespace, timeout_seconds=timeout_seconds))


def stored(app: Stem) -> list[str]:
    return sorted(record.name for record in app.store.results.page(TaskFilter(), limit=10).items)
