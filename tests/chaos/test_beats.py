"""Five schedulers with wrong clocks that are killed and frozen, on stores that fail: every instant is enqueued once, none is
missed."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from stem import Settings, Stem
from stem.contracts.schedules import ScheduleEntry
from stem.core.errors import StemError
from stem.core.lifecycle import EventKind
from stem.scheduler.entries import EntryWriter
from support.stores.outages import Outage, PostgresRestarted, RedisKilled, SqliteLocked, lasts
from support.until import until

SECONDS = float(os.environ.get("STEM_CAMPAIGN_SECONDS", "10"))
ENTRIES = 8
SKEWS = (-5.0, -2.5, 0.0, 2.5, 5.0)
BEAT = Path(__file__).parent / "skewed_beat.py"


class Beats:
    """The schedulers of a test, each with its own error of the clock; a dead one is replaced."""

    def __init__(self, url: str, place: Path, chance: random.Random) -> None:
        self._variables = {**os.environ, "STEM_BROKER_URL": url}
        self._place = place
        self._chance = chance
        self.processes = [self._start(skew) for skew in SKEWS]

    def _start(self, skew: float) -> subprocess.Popen[bytes]:
        words = [sys.executable, str(BEAT), str(skew)]
        with (self._place / "beats.log").open("ab") as log:
            return subprocess.Popen(words, env=self._variables, cwd=self._place, stderr=log, stdout=log)

    def strike(self) -> None:
        """Kill one and start another in its place, or freeze one for longer than it may lead."""
        index = self._chance.randrange(len(SKEWS))
        if self._chance.random() < 0.7:
            self.processes[index].kill()
        else:
            self.processes[index].send_signal(signal.SIGSTOP)
            time.sleep(self._chance.uniform(0.5, 8.0))  # the fault itself: how long it is frozen
            self.processes[index].send_signal(signal.SIGCONT)

    def replace_dead(self) -> None:
        """One that was started while the store was away has ended as well."""
        for index, skew in enumerate(SKEWS):
            if self.processes[index].poll() is not None:
                self.processes[index] = self._start(skew)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture(params=[SqliteLocked, RedisKilled, PostgresRestarted], ids=lambda kind: kind.__name__)
def outage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Outage]:
    made: Outage = request.param(tmp_path)
    yield made
    made.close()


@pytest.fixture
def app(outage: Outage) -> Iterator[Stem]:
    with Stem(settings=Settings(broker_url=outage.url, timeout_seconds=30.0)) as app:
        yield app


@pytest.mark.timeout(900)
def test_case_15_every_instant_is_enqueued_once_whatever_happens(app: Stem, outage: Outage, tmp_path: Path) -> None:
    writer = EntryWriter.of(app.store, app.settings)
    for number in range(ENTRIES):
        writer.save(ScheduleEntry(id=f"e{number}", task="it", spec="every 1 second", misfire="all"), None)
    chance = random.Random(7)
    beats = Beats(outage.url, tmp_path, chance)
    try:
        until(lambda: scheduled(app), seconds=60, every=0.1)
        campaign(beats, outage, chance)
        last = datetime.fromtimestamp(app.store.upkeep.now(), UTC)
        until(lambda: is_past(app, last), seconds=60, every=0.1)
    finally:
        beats.close()
        print((tmp_path / "beats.log").read_text())
    check(scheduled(app))


def campaign(beats: Beats, outage: Outage, chance: random.Random) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if chance.random() < 0.35:
            lasts(outage, chance.uniform(0.2, 3.0))
        else:
            beats.strike()
        beats.replace_dead()
        time.sleep(chance.uniform(0.1, 1.0))  # the rhythm of the faults
    outage.end()


def is_past(app: Stem, moment: datetime) -> bool:
    """Whether all instants up to then have been dealt with."""
    try:
        found = app.store.schedules.all()
    except StemError:  # the server has only just come back
        return False
    return len(found) == ENTRIES and all(each.state.instant and each.state.instant > moment for each in found)


def check(found: Counter[tuple[str, str]]) -> None:
    assert set(found.values()) == {1}, [each for each, count in found.items() if count > 1]
    for number in range(ENTRIES):
        ran = sorted(datetime.fromisoformat(instant) for entry, instant in found if entry == f"e{number}")
        gaps = [(a, b) for a, b in pairwise(ran) if b - a != timedelta(seconds=1)]
        assert not gaps, f"e{number} has no run between {gaps}"
        assert len(ran) >= SECONDS


def scheduled(app: Stem) -> Counter[tuple[str, str]]:
    """How often each instant of each entry was enqueued, from the log: a second task of an instant would show there."""
    found: Counter[tuple[str, str]] = Counter()
    after: str | None = None
    while events := app.store.events.read(after, limit=1000):
        after = events[-1].offset
        told = [event.data for event in events if event.kind is EventKind.SCHEDULED]
        found.update((data["schedule"], data["scheduledFor"]) for data in told)
    return found
