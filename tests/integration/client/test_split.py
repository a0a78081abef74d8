"""Broker and results on two different stores, chosen by URL."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

from conftest import BACKENDS, url_of
from stem import State, Stem, TaskCancelled, TaskFailed, chain, group
from stem.backends import connect
from stem.core.record import TaskFilter
from stem.testing import run_pending

PAIRS = [pair for pair in permutations(BACKENDS, 2) if "memory" not in pair] + [("memory", "sqlite")]


@pytest.fixture(params=PAIRS, ids=lambda pair: "+".join(pair))
def app(request: pytest.FixtureRequest, tmp_path: Path, namespace: str) -> Iterator[Stem]:
    broker_url, results_url = (url_of(backend, request, tmp_path) for backend in request.param)
    app = Stem(broker_url, results_url=results_url, namespace=namespace, max_retries=1, retry=0)

    @app.task(name="double")
    def double(number: int) -> int:
        if number < 0:
            raise ValueError("negative")
        return 2 * number

    yield app
    app.close()


def test_a_task_lives_its_life_in_both(app: Stem) -> None:
    good, bad, purged = (app.tasks["double"].enqueue(4), app.tasks["double"].enqueue(-1), None)
    assert app.settings.results_url is not None
    alone = connect(app.settings.results_url, app.settings)
    try:
        assert alone.results.get([good.id])[good.id].state is State.QUEUED
        assert alone.broker.depth() == {}
        assert run_pending(app) == 3
        assert good.get(5) == 8
        with pytest.raises(TaskFailed, match="negative"):
            bad.get(5)
        copies = alone.results.get([good.id, bad.id])
        assert copies[good.id].result() == 8
        assert (copies[bad.id].state, copies[bad.id].attempt) == (State.FAILED, 1)
        purged = app.tasks["double"].enqueue(1)
        app.store.broker.purge("default")
        with pytest.raises(TaskCancelled):
            purged.get(5)
        assert alone.results.get([purged.id])[purged.id].state is State.CANCELLED
    finally:
        alone.upkeep.close()
    listed = app.store.results.page(TaskFilter(), limit=10).items
    assert {record.id for record in listed} == {good.id, bad.id, purged.id}


def test_awaits_are_woken(app: Stem) -> None:
    async def main() -> list[object]:
        handles = [await app.tasks["double"].aenqueue(number) for number in range(20)]
        waits = [asyncio.ensure_future(handle.aget(30)) for handle in handles]
        await asyncio.to_thread(run_pending, app)
        return list(await asyncio.gather(*waits))

    assert asyncio.run(main()) == [2 * number for number in range(20)]


def test_the_environment_names_both(tmp_path: Path) -> None:
    script = """
from stem import Stem
from stem.testing import run_pending
app = Stem()
one = app.task(name="one")(lambda: 1)
handle = one.enqueue()
run_pending(app)
print(handle.get(5), app.store.upkeep.diagnose().backend)
"""
    urls = {
        "STEM_BROKER_URL": f"sqlite:///{tmp_path}/broker.db",
        "STEM_RESULT_BACKEND_URL": f"sqlite:///{tmp_path}/results.db",
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **urls},
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout.strip() == "1 sqlite+sqlite"
    assert {"broker.db", "results.db"} <= {path.name for path in tmp_path.iterdir()}


def test_a_canvas_lives_in_both_and_is_mended(app: Stem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stem.client.canvas.push_batch.STAGED_FROM", 5)  # which such stores refuse: it is one push
    double = app.tasks["double"]

    @app.task(name="total")
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    handle = (group(double.s(number) for number in range(10)) | total.s() | double.s()).submit()
    run_pending(app)
    assert handle.get(5) == 4 * sum(range(10))

    broken = (double.s(-1) | double.s()).submit()
    run_pending(app)
    with pytest.raises(TaskFailed, match="negative"):
        broken.get(5)
    assert len(broken.resume()) == 1
    run_pending(app)
    assert broken.status().counts == {State.FAILED: 1, State.CANCELLED: 1}
    assert len(chain(double.s(1), double.s()).set(delay=60, id="gone").submit().revoke()) == 2
    with pytest.raises(TaskCancelled):
        app.canvas("gone").get(5)
