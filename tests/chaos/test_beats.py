"""Five schedulers that are killed and frozen: every instant is enqueued once, none is missed."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from acceptance.shell import STEM
from stem.contracts.schedules import ScheduleEntry
from stem.contracts.store import Store
from stem.core.record import TaskFilter
from stem.runtime.keys import Keyring
from stem.scheduler.entries import EntryWriter
from support.until import until

SECONDS = float(os.environ.get("STEM_CAMPAIGN_SECONDS", "20"))
ENTRIES = 4
BEATS = 5


class Beats:
    """The schedulers of a test; a dead one is replaced."""

    def __init__(self, url: str, namespace: str, place: Path) -> None:
        self._variables = {**os.environ, "STEM_BROKER_URL": url, "STEM_NAMESPACE": namespace}
        self._place = place
        self.processes = [self._start() for _ in range(BEATS)]

    def _start(self) -> subprocess.Popen[bytes]:
        with (self._place / "beats.log").open("ab") as log:
            return subprocess.Popen([STEM, "beat"], env=self._variables, cwd=self._place, stderr=log, stdout=log)

    def strike(self, chance: random.Random) -> None:
        """Kill one and start another in its place, or freeze one for longer than it may lead."""
        index = chance.randrange(BEATS)
        if chance.random() < 0.7:
            self.processes[index].kill()
            self.processes[index].wait()
            self.processes[index] = self._start()
        else:
            self.processes[index].send_signal(signal.SIGSTOP)
            time.sleep(chance.uniform(0.5, 8.0))  # the fault itself: how long it is frozen
            self.processes[index].send_signal(signal.SIGCONT)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def beats(durable_url: str, namespace: str, tmp_path: Path, durable_store: Store) -> Iterator[Beats]:
    writer = EntryWriter(durable_store, Keyring({}))
    for number in range(ENTRIES):
        writer.save(ScheduleEntry(id=f"e{number}", task="it", spec="every 1 second", misfire="all"), None)
    running = Beats(durable_url, namespace, tmp_path)
    yield running
    running.close()
    print((tmp_path / "beats.log").read_text())


@pytest.mark.timeout(900)
def test_every_instant_is_enqueued_once_whatever_happens_to_schedulers(beats: Beats, durable_store: Store) -> None:
    until(lambda: _instants(durable_store), seconds=60)
    chance, end = random.Random(7), time.monotonic() + SECONDS
    while time.monotonic() < end:
        beats.strike(chance)
        time.sleep(chance.uniform(0.1, 1.0))  # the rhythm of the faults
    last = datetime.fromtimestamp(durable_store.upkeep.now(), UTC).replace(microsecond=0)
    until(lambda: all(_state_instant(durable_store, n) > last for n in range(ENTRIES)), seconds=60)
    found = _instants(durable_store)
    assert set(found.values()) == {1}, [each for each, count in found.items() if count > 1]
    for number in range(ENTRIES):
        ran = sorted(datetime.fromisoformat(instant) for entry, instant in found if entry == f"e{number}")
        assert [int((b - a).total_seconds()) for a, b in pairwise(ran)] == [1] * (len(ran) - 1)


def _state_instant(store: Store, number: int) -> datetime:
    found = store.schedules.get(f"e{number}")
    assert found is not None and found.state.instant is not None
    return found.state.instant


def _instants(store: Store) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    cursor: str | None = None
    while True:
        page = store.results.page(TaskFilter(), limit=1000, cursor=cursor)
        found.update((record.meta["schedule"], record.meta["scheduledFor"]) for record in page.items)
        cursor = page.cursor
        if cursor is None:
            return found
