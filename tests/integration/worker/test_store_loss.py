"""A store that goes away under a working worker and comes back: consuming goes on, and what runs is left alone."""

import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stem.core.errors import StemError
from stem.core.lifecycle import EventKind, State
from support.servers import RedisServer
from support.stores.calls import kinds_of
from support.stores.outages import (
    Hanging,
    Outage,
    PostgresFrozen,
    PostgresHanging,
    PostgresReset,
    PostgresRestarted,
    RedisFrozen,
    RedisHanging,
    RedisKilled,
    RedisReset,
    SqliteLocked,
    lasts,
)
from support.until import until
from support.workers.fleet import Fleet, FleetWorker
from support.workers.processes import are_gone

AGAIN_SECONDS = 10.0
SHORT: dict[str, Any] = {
    "lease_seconds": 5.0,
    "reclaim_seconds": 1.0,
    "variables": {"STEM_STORE_TIMEOUT": "2"},
}


OUTAGES = [RedisKilled, RedisFrozen, RedisReset, PostgresRestarted, PostgresFrozen, PostgresReset, SqliteLocked]
HANGING: list[type[Outage]] = [RedisHanging, PostgresHanging]
LASTING = [outage for outage in OUTAGES if outage not in (RedisReset, PostgresReset)]


@pytest.fixture
def outage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Outage]:
    opened = request.param(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def fleet(outage: Outage, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(outage.url, namespace, tmp_path) as opened:
        yield opened
        outage.end()


def of(kinds: list[type[Outage]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("outage", kinds, indirect=True, ids=[kind.__name__ for kind in kinds])


@of(OUTAGES)
def test_consuming_goes_on_and_what_runs_is_left_alone(outage: Outage, fleet: Fleet, tmp_path: Path) -> None:
    worker = fleet.start(concurrency=2)
    (running,) = fleet.push("until-there", "running", file=str(tmp_path / "go"))
    ended = fleet.ledger.begun(running)
    lasts(outage, 0.0 if isinstance(outage, RedisReset | PostgresReset) else 3.0)
    back_at = time.monotonic()
    (probe,) = until(lambda: pushed(fleet, "probe"), seconds=AGAIN_SECONDS)
    fleet.ended([probe], seconds=AGAIN_SECONDS - (time.monotonic() - back_at))
    (tmp_path / "go").touch()
    record = fleet.ended([running])[running]
    assert (record.state, record.attempt) == (State.SUCCEEDED, 0)
    assert fleet.ledger.runs() == {running: 1, probe: 1}
    assert ended.pid in {isolate.pid for isolate in worker.isolates}
    assert worker.stop() == 0


@of(LASTING)
def test_an_ending_that_falls_into_the_outage_is_written_after_it(outage: Outage, fleet: Fleet, tmp_path: Path) -> None:
    worker = fleet.start(concurrency=2)
    ids = fleet.push("until-there", "t0", "t1", file=str(tmp_path / "go"))
    until(lambda: len(fleet.ledger.runs()) == 2)
    outage.begin()
    (tmp_path / "go").touch()
    until(lambda: len(fleet.ledger.entries("end")) == 2)
    began_at = time.monotonic()
    until(lambda: time.monotonic() - began_at > 1.5, every=0.05)
    outage.end()
    records = until(lambda: asked(fleet, ids), seconds=AGAIN_SECONDS, every=0.1)
    assert set(records) == {State.SUCCEEDED}
    assert fleet.ledger.runs() == dict.fromkeys(ids, 1)
    assert worker.stop() == 0


@of([RedisKilled, PostgresRestarted, SqliteLocked])
def test_nothing_is_held_ahead_while_tasks_run_that_were_cut_off_and_then_again(
    outage: Outage, fleet: Fleet, tmp_path: Path
) -> None:
    worker = fleet.start(concurrency=2, heartbeat_seconds=0.5)
    (running,) = fleet.push("until-there", "running", file=str(tmp_path / "go"))
    fleet.ledger.begun(running)
    due = something_due(fleet)
    outage.begin()
    until(lambda: "store.disconnected while claiming" in worker.text, seconds=20)
    outage.end()
    marks = [f"more{n}" for n in range(1500)]
    more = until(lambda: pushed(fleet, *marks, task="nap", seconds=0.005), seconds=AGAIN_SECONDS)
    until(lambda: len(fleet.ledger.runs()) > 100)
    end = time.monotonic() + 2.0
    while time.monotonic() < end:
        assert held(fleet, worker) <= 2
    (tmp_path / "go").touch()
    until(lambda: held(fleet, worker) > 2)
    fleet.ended([running, *due, *more])
    assert set(fleet.ledger.runs().values()) == {1}


@of(LASTING + HANGING)
def test_outages_longer_than_a_lease_take_nothing_from_workers_that_live(
    outage: Outage, fleet: Fleet, tmp_path: Path
) -> None:
    """A store that is gone comes back three times, so that a death counted each time would be a crash loop."""
    workers = [fleet.start(is_awaited=False, **SHORT) for _ in range(3)]
    fleet.ready(*workers)
    ids = fleet.push("until-there", *(f"t{n}" for n in range(5)), file=str(tmp_path / "go"))
    until(lambda: len(fleet.ledger.runs()) == 5, seconds=30)
    for number in range(3 if type(outage) in (RedisKilled, PostgresRestarted, SqliteLocked) else 1):
        lasts(outage, SHORT["lease_seconds"] * 1.5)
        probe = until(partial(pushed, fleet, f"probe{number}"), seconds=AGAIN_SECONDS)
        until(partial(asked, fleet, probe), seconds=30, every=0.1)
        until_leases_that_ran_out_are_reclaimed(fleet)
    (tmp_path / "go").touch()
    records = fleet.ended(ids)
    assert {record.state for record in records.values()} == {State.SUCCEEDED}
    assert [fleet.ledger.runs()[id] for id in ids] == [1] * 5
    for id in ids:
        kinds = kinds_of(fleet.store, id)
        assert EventKind.REQUEUED not in kinds[kinds.index(EventKind.STARTED) :], "no death was counted"
    assert not isinstance(outage, Hanging) or outage.proxy.accepted_silently > 0


@of([RedisKilled, PostgresRestarted, SqliteLocked])
def test_a_worker_that_starts_after_an_outage_waits_for_the_others_to_renew(
    outage: Outage, fleet: Fleet, tmp_path: Path
) -> None:
    """It has not seen the outage; the store remembers. Whoever was killed meanwhile has its tasks taken over."""
    living, doomed = (fleet.start(is_awaited=False, **SHORT, concurrency=1) for _ in range(2))
    fleet.ready(living, doomed)
    ids = fleet.push("until-there", "t0", "t1", file=str(tmp_path / "go"))
    until(lambda: len(fleet.ledger.runs()) == 2, seconds=30)
    mine = next(e.mark for e in fleet.ledger.entries("begin") if e.server == living.server.pid)
    outage.begin()
    began_at = time.monotonic()
    doomed.kill()
    living.send_all(signal.SIGSTOP)  # so that it cannot be first
    until(lambda: time.monotonic() - began_at > SHORT["lease_seconds"] * 1.5, every=0.05)
    outage.end()
    fleet.start(**SHORT, is_awaited=False).wait_until_up()
    living.send_all(signal.SIGCONT)
    until(lambda: sum(fleet.ledger.runs().values()) == 3, seconds=30)
    (tmp_path / "go").touch()
    fleet.ended(ids)
    assert fleet.ledger.runs()[mine] == 1


@of([RedisKilled, PostgresRestarted])
def test_a_store_that_is_away_for_longer_than_a_stall_is_waited_for(
    outage: Outage, fleet: Fleet, tmp_path: Path
) -> None:
    worker = fleet.start(stall_seconds=2.0, lease_seconds=30.0, variables={"STEM_STORE_TIMEOUT": "1"})
    (running,) = fleet.push("until-there", "running", file=str(tmp_path / "go"))
    fleet.ledger.begun(running)
    lasts(outage, 6.0)
    (probe,) = until(lambda: pushed(fleet, "probe"), seconds=AGAIN_SECONDS)
    fleet.ended([probe], seconds=60)  # a claim that was not answered in time may have leased it
    (tmp_path / "go").touch()
    fleet.ended([running])
    assert fleet.ledger.runs() == {running: 1, probe: 1}
    assert worker.stop() == 0


@of([RedisKilled, PostgresRestarted])
def test_a_warm_stop_during_an_outage_waits_until_what_ended_is_written(
    outage: Outage, fleet: Fleet, tmp_path: Path
) -> None:
    worker = fleet.start()
    (id,) = fleet.push("until-there", "t0", file=str(tmp_path / "go"))
    fleet.ledger.begun(id)
    outage.begin()
    worker.send(signal.SIGTERM)
    (tmp_path / "go").touch()
    until(lambda: fleet.ledger.entries("end"))
    began_at = time.monotonic()
    until(lambda: time.monotonic() - began_at > 1.0, every=0.05)
    assert worker.is_alive
    outage.end()
    assert worker.process.wait(20) == 0
    assert until(lambda: asked(fleet, [id]), seconds=AGAIN_SECONDS) == [State.SUCCEEDED]
    assert fleet.ledger.runs() == {id: 1}


@of([RedisKilled, PostgresRestarted])
def test_a_hard_stop_during_an_outage_ends_the_worker_all_the_same(
    outage: Outage, fleet: Fleet, tmp_path: Path
) -> None:
    worker = fleet.start(lease_seconds=1.0, variables={"STEM_STORE_TIMEOUT": "2"})
    (id,) = fleet.push("until-there", "t0", file=str(tmp_path / "go"))
    fleet.ledger.begun(id)
    tree = worker.tree()
    outage.begin()
    assert worker.stop(signal.SIGQUIT, seconds=25) == 0
    until(lambda: are_gone(tree))
    outage.end()
    (tmp_path / "go").touch()
    fleet.start(lease_seconds=1.0)
    record = fleet.ended([id])[id]
    assert (record.state, record.attempt) == (State.SUCCEEDED, 0)
    assert fleet.ledger.runs() == {id: 2}


@of([SqliteLocked])
def test_while_results_cannot_be_written_a_worker_does_not_run_the_queue_empty(outage: Outage, fleet: Fleet) -> None:
    """The broker gives tasks all the while; how they end is kept here, and must not become too much."""
    results = RedisServer()
    fleet.start(variables={"STEM_RESULT_BACKEND_URL": results.url})
    results.kill()
    ids = fleet.push("note", *(f"t{n}" for n in range(9000)))
    until(lambda: len(fleet.ledger.runs()) > 5000, seconds=40)
    end = time.monotonic() + 2.0
    until(lambda: time.monotonic() > end, every=0.1)
    assert len(fleet.ledger.runs()) <= 5000 + 1000 + 2
    results.start()
    fleet.ended(ids, seconds=60)
    assert fleet.ledger.runs() == dict.fromkeys(ids, 1)
    results.close()


@of([RedisFrozen, PostgresFrozen, SqliteLocked])
def test_a_poll_that_does_not_end_gets_a_new_connection_and_then_the_worker_gives_up(
    outage: Outage, fleet: Fleet
) -> None:
    worker = fleet.start(stall_seconds=2.0)
    tree = worker.tree()
    something_due(fleet)  # an idle worker does not mind a locked file
    outage.begin()
    until(lambda: "fetcher.stalled" in worker.text, seconds=30, every=0.05)
    assert worker.process.wait(60) == 70
    assert "over a new connection" in worker.text
    until(lambda: are_gone(tree))


def until_leases_that_ran_out_are_reclaimed(fleet: Fleet) -> None:
    """One that nobody renews, of no worker, is taken back by the same calls that would take the others'."""
    fleet.push("note", f"left{time.monotonic_ns()}", options={"queue": "nobody's"})
    fleet.store.broker.claim(["nobody's"], limit=1, lease_seconds=0.1)
    until(lambda: fleet.store.broker.depth(["nobody's"])["nobody's"].ready == 1, seconds=30, every=0.05)
    fleet.store.broker.purge("nobody's")


def something_due(fleet: Fleet) -> list[str]:
    """To claim in a few seconds, while the store is away; again and again, for that may be late."""
    return [fleet.push("note", f"due{delay}", options={"delay": float(delay)})[0] for delay in (3, 6, 9)]


def held(fleet: Fleet, worker: FleetWorker) -> int:
    """What waits or runs in it, as its last heartbeat says."""
    count: int = until(lambda: fleet.pulses().get(worker.name)).extras["held"]
    return count


def pushed(fleet: Fleet, *marks: str, task: str = "note", **args: Any) -> list[str] | None:
    """None while the store is not back for us either; pushing an id twice is a no-op."""
    try:
        return fleet.push(task, *marks, **args)
    except StemError:
        return None


def asked(fleet: Fleet, ids: list[str]) -> list[State] | None:
    """Their states, once all have ended and the store is there to say so."""
    try:
        records = fleet.store.results.get(ids).values()
    except StemError:
        return None
    return [record.state for record in records] if all(record.is_terminal for record in records) else None
