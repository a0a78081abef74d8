"""Random canvases while workers are killed, and their submitter right after it has submitted: all end, each task once."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stem import Stem
from stem.core.lifecycle import EventKind, State
from stem.core.prerequisites import CANVAS
from stem.core.record import TaskFilter, TaskRecord
from support.stores.snapshot import lives
from support.until import until
from support.workers.fleet import Fleet, a_fleet
from support.workers.kills import SHORT
from support.workers.processes import TESTS, environment

SECONDS = float(os.environ.get("STEM_CAMPAIGN_SECONDS", "3"))
APP = "support.worker_apps.composing_shop:app"
CANVASES = 2


@pytest.fixture
def fleet(durable_url: str, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from a_fleet(durable_url, namespace, tmp_path)


def test_every_canvas_ends_and_each_of_its_tasks_succeeds_once(fleet: Fleet, durable_url: str, namespace: str) -> None:
    """Members fail and are replayed meanwhile, spawn others and are replaced by canvases."""
    seed = int(os.environ.get("STEM_CAMPAIGN_SEED") or random.randrange(2**32))
    print(f"STEM_CAMPAIGN_SEED={seed} STEM_CAMPAIGN_SECONDS={SECONDS:g}")
    dice = random.Random(seed)
    workers = [fleet.start(app_path=APP, **SHORT) for _ in range(2)]
    end, kills, replays, submitted, going = time.monotonic() + SECONDS, 0, 0, list[str](), list[str]()
    with Stem(durable_url, namespace=namespace) as app:
        while time.monotonic() < end or kills < 3:
            if not going:
                going = submit_and_die(durable_url, namespace, [dice.randrange(2**32) for _ in range(CANVASES)])
                submitted += going
            victim = dice.randrange(len(workers))
            time.sleep(dice.uniform(0.2, 1.0))  # long enough to run something, short enough to die in the middle of it
            workers[victim].kill()
            workers[victim] = fleet.start(app_path=APP, **SHORT)
            kills += 1
            replays += sum(len(app.canvas(id).resume()) for id in going)
            going = [id for id in going if app.canvas(id).status().state is not State.SUCCEEDED]
        for id in going:
            replays += mended(app, id)
    check(fleet, submitted)
    print(f"{kills} kills, {replays} replays")


def mended(app: Stem, id: str) -> int:
    """Replay what has failed until the canvas has succeeded; how many were replayed."""
    handle, replays = app.canvas(id), 0
    while handle.wait(60).state is not State.SUCCEEDED:
        replayed = handle.resume()
        assert replayed or handle.status().state is not State.CANCELLED
        replays += len(replayed)
    return replays


def submit_and_die(url: str, namespace: str, seeds: list[int]) -> list[str]:
    """Have a process submit canvases that kills itself afterwards; their ids."""
    done = subprocess.run(
        [sys.executable, "-m", "support.worker_apps.composing_shop", json.dumps(seeds)],
        env=environment(url, namespace),
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.split()


def check(fleet: Fleet, submitted: list[str]) -> None:
    records = list(all_records(fleet))
    wrong = {record.id: (record.name, record.state) for record in records if record.state is not State.SUCCEEDED}
    assert not wrong
    assert {record.id for record in records if record.name == CANVAS} == set(submitted)
    until(lambda: all(each.blocked == each.running == each.ready == 0 for each in fleet.store.broker.depth().values()))
    for id, events in lives(fleet.store).items():
        kinds = [event.kind for event in events]
        assert kinds.count(EventKind.SUCCEEDED) + kinds.count(EventKind.JOINED) == 1, id
        assert kinds.count(EventKind.RELEASED) <= 1, id
    names = Counter(record.name for record in records)
    print(f"{len(records)} tasks of {len(submitted)} canvases: {dict(names)}")


def all_records(fleet: Fleet) -> Iterator[TaskRecord]:
    cursor = None
    while True:
        page = fleet.store.results.page(TaskFilter(), limit=10_000, cursor=cursor)
        yield from page.items
        if (cursor := page.cursor) is None:
            return
