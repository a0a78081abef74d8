"""Workers and the pipeline's driver killed again and again while events flow: nothing is lost, nothing is there twice."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.event import Event
from stem.core.lifecycle import EventKind
from stem.core.record import TaskFilter
from stem.core.settings.app import Settings
from stem.pipeline.lake import lake as lakes
from stem.pipeline.lake.lake import Lake
from stem.pipeline.lake.retention import maintain
from stem.pipeline.lake.stream_to_lake import StreamToLake
from support.pipeline.recount import assert_equals_a_recount
from support.pipeline.written_history import live
from support.stores.calls import all_events
from support.stores.lifecycle_check import walk
from support.until import until
from support.workers.fleet import Fleet, a_fleet
from support.workers.kills import Campaign

CAMPAIGN_SECONDS = float(os.environ.get("STEM_CAMPAIGN_SECONDS", "0"))
START_SECONDS = 120.0  # of a driver, on a machine that is busy with workers
STRIKE_SECONDS = 1.0  # from one kill to the next: a worker's start takes half a second of a processor
BATCH = "1000"


@pytest.fixture
def fleet(durable_url: str, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from a_fleet(durable_url, namespace, tmp_path)


@pytest.mark.timeout(300 + 3 * CAMPAIGN_SECONDS)
@pytest.mark.parametrize("durable_url", ["sqlite", "postgres"], indirect=True)
def test_the_lake_equals_the_store_after_workers_and_driver_were_killed_at_any_point(
    spark: SparkSession, durable_url: str, namespace: str, fleet: Fleet, tmp_path: Path
) -> None:
    seed = int(os.environ.get("STEM_CAMPAIGN_SEED") or random.randrange(2**32))
    print(f"STEM_CAMPAIGN_SEED={seed} STEM_CAMPAIGN_SECONDS={CAMPAIGN_SECONDS:g}")
    dice, root = random.Random(seed), str(tmp_path / "lake")
    settings = Settings(broker_url=durable_url, namespace=namespace)
    end, drivers, campaign = time.monotonic() + CAMPAIGN_SECONDS, 0, Campaign(fleet, random.Random(seed))
    with flowing(settings), raging(campaign):
        while drivers < 2 or time.monotonic() < end:
            with driver(settings, root) as process:
                _let_it_live(process, dice)
            drivers += 1
    campaign.calm_down()
    fleet.ended(campaign.acknowledged, seconds=60)
    for worker in fleet.workers:
        worker.clean_up()  # what a worker notes of itself while we count would be in the log alone
    StreamToLake(settings, root).run(lambda: spark)
    lake, logged = lakes.open_lake(root), all_events(fleet.store)
    assert campaign.kills > max(5.0, CAMPAIGN_SECONDS / 3), "hardly anyone was killed; the campaign proves nothing"
    states = assert_equals_the_store(spark, lake, logged, fleet.store)
    print(f"{drivers} drivers and {campaign.kills} of workers' processes killed; {len(logged)} events of")
    print(f"{sum(states.values())} tasks, each once in the lake; by task and state {sorted(states.items())}")
    assert_equals_a_recount(spark, lake, logged)
    assert_no_file_is_left_over(spark, lake)


def assert_equals_the_store(
    spark: SparkSession, lake: Lake, logged: list[Event], store: Store
) -> Counter[tuple[str, str]]:
    """Offset by offset the log; and what its events lead to is what the records say, by task and state."""
    found = lake.events.frame(spark).collect()
    rows = {row.offset: row for row in found}
    assert len(found) == len(rows) == len(logged) and rows.keys() == {event.offset for event in logged}
    lives: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in logged:  # in the order of the log, which offsets do not tell; all else is the lake's
        row = rows[event.offset]
        if row.task_id:
            kept = Event(
                offset=row.offset, kind=EventKind(row.kind), at=row.at, task_id=row.task_id, name=row.name,
                queue=row.queue, attempt=row.attempt, worker=row.worker, enqueued_at=row.enqueued_at,
                started_at=row.started_at, data={},
            )  # fmt: skip
            lives[row.name, row.task_id].append(kept)
    states = Counter((name, str(walk(events))) for (name, _), events in lives.items())
    assert states == _states_of(store)
    return states


def _states_of(store: Store) -> Counter[tuple[str, str]]:
    states, cursor, is_last = Counter[tuple[str, str]](), None, False
    while not is_last:
        page = store.results.page(TaskFilter(), limit=1000, cursor=cursor)
        states.update((record.name, str(record.state)) for record in page.items)
        cursor, is_last = page.cursor, page.cursor is None
    return states


def assert_no_file_is_left_over(spark: SparkSession, lake: Lake) -> None:
    maintain(lake, spark, many_files=2, vacuum_hours=0)
    files = sum(
        1 for table in lake.tables for path in Path(table.root).rglob("*.parquet") if "_delta_log" not in path.parts
    )
    assert files == sum(len(table.files()) for table in lake.tables)


def _let_it_live(process: "subprocess.Popen[str]", dice: random.Random) -> None:
    """Most until a batch is in, for some of the next ones; others end while they start, or take up what was left."""
    if dice.random() < 0.25:
        with suppress(subprocess.TimeoutExpired):
            process.wait(dice.uniform(1.0, 8.0))
        return
    assert process.stdout is not None
    assert until(process.stdout.readline, seconds=START_SECONDS).count("events in")
    time.sleep(dice.uniform(0.0, 1.5))


@contextmanager
def driver(settings: Settings, root: str) -> Iterator["subprocess.Popen[str]"]:
    """The command itself; it and all that it started die by SIGKILL."""
    words = ["--follow", "--batch", BATCH, "--lake", root, "--master", "local[2,4]"]
    where = ["--broker-url", settings.broker_url, "--namespace", settings.namespace]
    command = [sys.executable, "-m", "stem", "pipeline", "run", *words, *where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
            assert process.poll() is None, f"the driver has ended by itself: {process.returncode}"
        finally:
            family = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGKILL)
            for member in family:
                with suppress(psutil.NoSuchProcess):
                    member.kill()
            psutil.wait_procs(family, timeout=30)


@contextmanager
def raging(campaign: Campaign) -> Iterator[None]:
    """Workers are killed meanwhile."""
    stopped = threading.Event()
    with _beside(lambda: campaign.run(lambda: stopped.wait(STRIKE_SECONDS)), stopped):
        until(lambda: campaign.kills, seconds=60)
        yield


@contextmanager
def flowing(settings: Settings) -> Iterator[None]:
    """Tasks come and end meanwhile, in all the ways there are."""
    stopped = threading.Event()

    def go_on() -> None:
        store = connect(settings.broker_url, settings)
        while not stopped.wait(0.1):
            live(store, 20, queue="past")
        store.upkeep.close()

    with _beside(go_on, stopped):
        yield


@contextmanager
def _beside(act: Callable[[], None], stopped: threading.Event) -> Iterator[None]:
    failures: list[BaseException] = []

    def kept() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            failures.append(error)

    thread = threading.Thread(target=kept)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
    assert not failures, failures
