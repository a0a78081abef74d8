"""What a worker claims, in which order, how much of it, and how it waits."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from stem.core.lifecycle import EventKind, State
from support.builders import a_push
from support.stores.snapshot import lives
from support.until import until
from support.workers.fleet import Fleet, a_fleet

MEASURED_SECONDS = 5.0


@pytest.fixture
def fleet(durable_url: str, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from a_fleet(durable_url, namespace, tmp_path)


def test_several_queues_share_one_prefetch(fleet: Fleet, tmp_path: Path) -> None:
    go = tmp_path / "go"
    for queue in ("one", "two", "three"):
        fleet.push("until-there", *(f"{queue}{n}" for n in range(20)), options={"queue": queue}, file=str(go))
    fleet.start(concurrency=2, prefetch=3, queues=["one", "two", "three"])
    until(lambda: len(fleet.ledger.runs()) == 2)
    most = most_claimed(fleet, seconds=2.0)
    assert 2 <= most <= 5
    go.touch()
    fleet.ended([f"{queue}{n}" for queue in ("one", "two", "three") for n in range(20)])
    assert set(fleet.ledger.runs().values()) == {1}


@pytest.mark.parametrize("prefetch", [0, 1, 7])
def test_the_prefetch_caps_what_is_claimed_also_after_quick_tasks(fleet: Fleet, tmp_path: Path, prefetch: int) -> None:
    go = tmp_path / "go"
    quick = fleet.push("note", *(f"quick{n}" for n in range(500)))
    long = fleet.push("until-there", *(f"long{n}" for n in range(20)), file=str(go))
    fleet.start(concurrency=1, prefetch=prefetch)
    fleet.ended(quick)
    fleet.ledger.begun("long0")
    assert 1 <= most_claimed(fleet, seconds=0.5) <= 1 + prefetch
    go.touch()
    fleet.ended(long)


def most_claimed(fleet: Fleet, *, seconds: float) -> int:
    """The most that the store saw leased while we looked."""
    end, most = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        most = max(most, sum(depth.running for depth in fleet.store.broker.depth().values()))
    return most


def test_with_one_isolate_and_no_prefetch_the_order_is_strictly_by_priority_then_age(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.start(concurrency=1, prefetch=0)
    go = tmp_path / "go"
    fleet.push("until-there", "first", file=str(go))
    fleet.ledger.begun("first")
    marks = [f"p{priority}-{n}" for n in range(3) for priority in (0, 5, 9, 3)]
    fleet.push_all([a_push(mark, name="note", args={"mark": mark}, priority=int(mark[1])) for mark in marks])
    go.touch()
    fleet.ended(marks)
    wanted = sorted(marks, key=lambda mark: -int(mark[1]))
    assert [entry.mark for entry in fleet.ledger.entries("begin")] == ["first", *wanted]


def test_with_a_prefetch_of_one_at_most_one_is_out_of_turn(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start(concurrency=1, prefetch=1)
    go = tmp_path / "go"
    fleet.push("until-there", "first", file=str(go))
    fleet.ledger.begun("first")
    low, high = [f"low{n}" for n in range(5)], [f"high{n}" for n in range(5)]
    fleet.push("note", *low, options={"priority": 1})
    fleet.push("note", *high, options={"priority": 9})
    go.touch()
    fleet.ended([*low, *high])
    order = [entry.mark for entry in fleet.ledger.entries("begin")][1:]
    assert order in ([*high, *low], ["low0", *high, *low[1:]])


def test_long_tasks_are_not_hoarded_by_the_worker_that_came_first(fleet: Fleet) -> None:
    first = fleet.start(concurrency=2)
    seen: list[list[int]] = []
    while len(seen) < 3 and (not seen or max(seen[-1]) - min(seen[-1]) > 3):  # one that is halted falls behind
        ids = fleet.push("nap", *(f"t{len(seen)}-{n}" for n in range(20)), seconds=0.5)
        fleet.ledger.begun(ids[1])
        second = fleet.start(concurrency=2)
        second_at = time.time()
        fleet.ended(ids)
        late = Counter(e.server for e in fleet.ledger.entries("begin") if e.at > second_at)
        seen.append([late[worker.server.pid] for worker in (first, second)])
        assert second.stop() == 0
    assert max(seen[-1]) - min(seen[-1]) <= 3, seen
    assert set(fleet.ledger.runs().values()) == {1}


def test_an_idle_worker_rests_and_wakes_at_once(fleet: Fleet) -> None:
    worker = fleet.start()
    (warm,) = fleet.push("note", "warm")
    fleet.ended([warm])
    seen: list[tuple[float, list[float]]] = []
    while not seen or not is_at_ease(*seen[-1]):  # a machine that does other things, too, is slow
        assert len(seen) < 3, f"more than one per cent of a core, or late: {seen}"
        spent = spent_within(MEASURED_SECONDS, worker.pid)
        seen.append((spent, [latency(fleet, f"t{len(seen)}-{n}") for n in range(5)]))


def is_at_ease(spent: float, latencies: list[float]) -> bool:
    return spent < MEASURED_SECONDS / 100 and latencies[0] < 1.0 and sorted(latencies)[2] < 0.1


def latency(fleet: Fleet, mark: str) -> float:
    """From the push to the start, in a worker that waits."""
    pushed_at = time.time()
    fleet.push("note", mark)
    begun = fleet.ledger.begun(mark)
    fleet.ended([mark])
    return begun.at - pushed_at


def spent_within(seconds: float, pid: int) -> float:
    before, end = cpu_seconds(pid), time.monotonic() + seconds
    until(lambda: time.monotonic() > end, seconds=seconds + 1, every=0.5)
    return cpu_seconds(pid) - before


def cpu_seconds(pid: int) -> float:
    """Of the worker, its fork server and its isolates so far."""
    supervisor = psutil.Process(pid)
    times = [process.cpu_times() for process in [supervisor, *supervisor.children(recursive=True)]]
    return sum(each.user + each.system for each in times)


def test_a_warm_stop_lets_tasks_end_and_gives_the_others_back_untouched(fleet: Fleet, tmp_path: Path) -> None:
    worker = fleet.start(concurrency=1, prefetch=10)
    go = tmp_path / "go"
    running, *others = fleet.push("until-there", *(f"t{n}" for n in range(5)), file=str(go))
    fleet.ledger.begun(running)
    worker.send(signal.SIGTERM)
    until(lambda: (fleet.depth().running, fleet.depth().ready) == (1, 4))
    go.touch()
    assert worker.process.wait(30) == 0
    assert fleet.record(running).state is State.SUCCEEDED
    assert_untouched(fleet, others)
    assert fleet.ledger.runs() == {running: 1}


def test_a_hard_stop_gives_all_back_and_spends_no_attempt(fleet: Fleet, tmp_path: Path) -> None:
    worker = fleet.start(concurrency=1, prefetch=10)
    go = tmp_path / "go"
    running, *others = fleet.push("until-there", *(f"t{n}" for n in range(5)), file=str(go))
    fleet.ledger.begun(running)
    until(lambda: fleet.record(running).state is State.RUNNING)
    assert worker.stop(signal.SIGQUIT) == 0
    assert (fleet.depth().running, fleet.depth().ready) == (0, 5)
    assert_untouched(fleet, others)
    assert (fleet.record(running).state, fleet.record(running).attempt) == (State.QUEUED, 0)
    (requeued,) = [event for event in lives(fleet.store)[running] if event.kind is EventKind.REQUEUED]
    assert "shut down" in requeued.data["reason"]
    go.touch()
    fleet.start()
    records = fleet.ended([running, *others])
    assert {(record.state, record.attempt) for record in records.values()} == {(State.SUCCEEDED, 0)}
    assert fleet.ledger.runs() == {running: 2, **dict.fromkeys(others, 1)}


def assert_untouched(fleet: Fleet, ids: list[str]) -> None:
    records = fleet.store.results.get(ids)
    assert {(record.state, record.attempt) for record in records.values()} == {(State.QUEUED, 0)}
    for id in ids:
        assert EventKind.STARTED not in [event.kind for event in lives(fleet.store)[id]]


def test_a_heartbeat_says_what_the_worker_is_and_does_and_a_goodbye_ends_it(
    fleet: Fleet, namespace: str, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    worker = fleet.start(name="mill.1", concurrency=2, queues=["default", "mail"], heartbeat_seconds=0.2)
    (note,) = fleet.push("note", "n")
    (busy,) = fleet.push("until-there", "t0", file=str(go))
    fleet.ended([note])
    fleet.ledger.begun(busy)
    # It may be out of sight for a moment: so soon a heartbeat is forgotten.
    beat = until(lambda: b if (b := fleet.pulses().get("mill.1")) and b.in_flight == 1 and b.counters else None)
    assert (beat.worker_id, beat.namespace, beat.pid, beat.concurrency) == ("mill.1", namespace, worker.pid, 2)
    assert (beat.host, beat.queues, beat.counters) == (os.uname().nodename, ["default", "mail"], {"succeeded": 1})
    assert beat.uptime_seconds > 0 and beat.memory_bytes > 10_000_000
    assert sorted(beat.extras["isolates"]) == sorted(isolate.pid for isolate in worker.isolates)
    go.touch()
    assert worker.stop() == 0
    assert fleet.pulses() == {}


def test_a_killed_worker_is_forgotten_after_three_heartbeats(fleet: Fleet) -> None:
    fleet.start(heartbeat_seconds=0.3).kill()
    until(lambda: not fleet.pulses())
