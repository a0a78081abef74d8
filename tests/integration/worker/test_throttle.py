"""Limits over a fleet of real workers: how often tasks start, how many run at once, and what a refusal costs."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stem.backends import connect
from stem.core.decisions.ratelimit import Rate
from stem.core.decisions.retry import Exponential
from stem.core.lifecycle import EventKind, State
from stem.core.outcome import Requeue
from stem.core.settings.app import Settings
from stem.worker.admission.throttle import Throttle
from stem.worker.fork.manifest import PlacesFacts, RateFacts, TaskFacts
from support.builders import a_push, pushes
from support.servers import RedisServer
from support.stores.snapshot import lives
from support.until import until
from support.workers.fleet import Fleet, a_fleet

RATE, BURST = 5, 5  # of the task `rated`, a second
TENANT_RATE, TENANT_BURST = 2, 1  # of `by-tenant`


@pytest.fixture
def fleet(durable_url: str, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from a_fleet(durable_url, namespace, tmp_path)


def test_a_rate_holds_over_two_workers_and_is_used_to_the_full(fleet: Fleet) -> None:
    fleet.ready(fleet.start(is_awaited=False), fleet.start(is_awaited=False))

    def is_kept(round_: int) -> bool:
        pushed_at = time.time()
        ids = fleet.push("rated", *(f"t{round_}-{n}" for n in range(60)))
        records = fleet.ended(ids, seconds=60)
        starts = starts_of(fleet, f"t{round_}-")
        assert len(starts) == 60
        assert_none_is_early(starts, pushed_at, RATE, BURST)
        assert {(record.state, record.attempt) for record in records.values()} == {(State.SUCCEEDED, 0)}
        # The first burst is saved up; from then on every token must find a taker.
        backlogged = starts[BURST:]
        achieved = (len(backlogged) - 1) / (backlogged[-1] - backlogged[0])
        return most_in_a_second(starts) <= RATE + BURST and RATE * 0.95 <= achieved <= RATE * 1.05

    in_one_of_three(is_kept)
    assert len({entry.server for entry in fleet.ledger.entries("begin")}) == 2, "one worker did it all"


def test_each_tenant_has_a_rate_of_its_own(fleet: Fleet) -> None:
    fleet.ready(fleet.start(is_awaited=False), fleet.start(is_awaited=False))

    def is_kept(round_: int) -> bool:
        tenants = [f"{name}{round_}" for name in ("acme", "globex", "initech")]
        marks = [f"{tenant}-{n}" for n in range(12) for tenant in tenants]
        pushed_at = time.time()
        fleet.push_all(
            [a_push(m, name="by-tenant", args={"mark": m}, headers={"tenant": m.split("-")[0]}) for m in marks]
        )
        fleet.ended(marks)
        seen = [starts_of(fleet, tenant) for tenant in tenants]
        for starts in seen:
            assert_none_is_early(starts, pushed_at, TENANT_RATE, TENANT_BURST)
        # The first at once, then at the full rate: nobody waits for another tenant's tokens, and none is lost.
        achieved = [(len(starts) - 1) / (starts[-1] - starts[0]) for starts in seen]
        return max(map(most_in_a_second, seen)) <= TENANT_RATE + TENANT_BURST and all(
            TENANT_RATE * 0.95 <= each <= TENANT_RATE * 1.05 for each in achieved
        )

    in_one_of_three(is_kept)


def in_one_of_three(is_kept: Callable[[int], bool]) -> None:
    """A machine that halts moves starts together or apart, but not in each round; what is wrong is so in all of them."""
    assert any(is_kept(round_) for round_ in range(3)), "in no round"


def starts_of(fleet: Fleet, name: str) -> list[float]:
    return sorted(entry.at for entry in fleet.ledger.entries("begin") if entry.mark.startswith(name))


def assert_none_is_early(starts: list[float], pushed_at: float, rate: float, burst: int) -> None:
    """Each needs a token of its own: this holds however often the machine halts."""
    for number, at in enumerate(starts):
        assert at >= pushed_at + (number + 1 - burst) / rate - 0.01, starts


def most_in_a_second(moments: list[float]) -> int:
    return max(sum(start <= moment < start + 1.0 for moment in moments) for start in moments)


def test_a_throttled_attempt_is_written_down_and_costs_no_retry(fleet: Fleet) -> None:
    fleet.start()

    def is_written_down(round_: int) -> bool:
        ids = fleet.push("rated", *(f"t{round_}-{n}" for n in range(12)), options={"max_retries": 0})
        records = fleet.ended(ids)
        assert {(record.state, record.attempt) for record in records.values()} == {(State.SUCCEEDED, 0)}
        told = lives(fleet.store)
        throttled = {id: [event for event in told[id] if event.kind is EventKind.THROTTLED] for id in ids}
        for id, events in throttled.items():
            if events:
                noted = records[id].meta["throttled"]
                assert noted["limit"] == events[-1].data["reason"] == "rate-limit rated"
                assert noted["retryAfterSeconds"] == pytest.approx(events[-1].data["delaySeconds"], abs=0.001)
        # More would mean that one was sent to a token that was not there.
        return sum(map(bool, throttled.values())) >= 12 - BURST - 1 and max(map(len, throttled.values())) <= 3

    in_one_of_three(is_written_down)
    assert set(fleet.ledger.runs().values()) == {1}


def test_a_task_that_waits_long_for_a_place_keeps_its_rate(fleet: Fleet) -> None:
    """Tasks behind others that take long must not save up their starts."""
    fleet.start(concurrency=1)

    def is_kept(round_: int) -> bool:
        long = fleet.push("nap", f"long{round_}", seconds=4.0, options={"priority": 9})
        fleet.ledger.begun(f"long{round_}")
        ids = fleet.push("rated", *(f"t{round_}-{n}" for n in range(25)))
        fleet.ended([*long, *ids])
        return most_in_a_second(starts_of(fleet, f"t{round_}-")) <= RATE + BURST

    in_one_of_three(is_kept)


def test_places_hold_over_two_workers(fleet: Fleet) -> None:
    fleet.ready(*(fleet.start(is_awaited=False, concurrency=3) for _ in range(2)))
    ids = fleet.push("placed", *(f"t{n}" for n in range(15)), seconds=0.2)
    records = fleet.ended(ids, seconds=40)
    assert {(record.state, record.attempt) for record in records.values()} == {(State.SUCCEEDED, 0)}
    assert most_at_once(fleet) == 3


def test_a_long_backlog_for_few_places_is_worked_off_at_once_but_does_not_circle(fleet: Fleet) -> None:
    fleet.start(concurrency=3)

    def is_worked_off(round_: int) -> bool:
        ids = fleet.push("placed", *(f"t{round_}-{n}" for n in range(400)), seconds=0.05)
        fleet.ended(ids, seconds=60)
        begun = starts_of(fleet, f"t{round_}-")
        seconds = begun[-1] - begun[0]
        told = lives(fleet.store)
        throttled = sum(event.kind is EventKind.THROTTLED for id in ids for event in told[id])
        assert throttled < 64 * 3 * seconds + 400
        return seconds < 2 * 400 * 0.05 / 3  # else places stood empty

    in_one_of_three(is_worked_off)
    assert most_at_once(fleet) == 3


def test_the_places_of_a_killed_worker_become_free(fleet: Fleet) -> None:
    short: dict[str, Any] = {"lease_seconds": 2.0, "reclaim_seconds": 0.25}
    first = fleet.start(concurrency=3, **short)
    holders = fleet.push("placed", *(f"held{n}" for n in range(3)), seconds=60.0)
    until(lambda: len(fleet.ledger.runs()) == 3)
    first.kill()
    assert fleet.store.broker.purge("default") == 0
    fleet.start(concurrency=3, **short)
    until(lambda: set(fleet.ledger.runs().values()) == {2}, seconds=20)
    assert set(holders) == set(fleet.ledger.runs())


def most_at_once(fleet: Fleet) -> int:
    """As the tasks saw it."""
    steps = sorted((entry.at, 1 if entry.what == "begin" else -1) for entry in fleet.ledger.entries())
    running = most = 0
    for _, step in steps:
        running += step
        most = max(most, running)
    return most


@pytest.mark.parametrize("fails_open", [True, False])
def test_a_limiter_that_is_gone_holds_back_or_lets_through_as_told(fails_open: bool) -> None:
    server = RedisServer()
    store = connect(server.url, Settings(namespace="gone", timeout_seconds=20.0))
    store.broker.push(pushes("t0", "t1", name="limited") + pushes("free", name="free"))
    deliveries = store.broker.claim(["default"], limit=9, lease_seconds=60)
    server.close()
    facts = {name: a_task(name, is_limited=name == "limited") for name in ("limited", "free")}
    throttle = Throttle(store.limiter, facts, lease_seconds=10.0, fails_open=fails_open)
    asked_at = time.monotonic()
    admitted, refused = throttle.admit(deliveries)
    assert time.monotonic() - asked_at < 10
    assert [task.lease.id for task in admitted] == (["t0", "t1", "free"] if fails_open else ["free"])
    for _, ending in refused:
        assert isinstance(ending.settlement, Requeue)
        assert ending.settlement.throttled and 1.0 <= ending.settlement.delay_seconds <= 3.0
        assert ending.meta["throttled"]["limit"] == "limiter-unreachable"
    assert len(refused) == (0 if fails_open else 2)
    throttle.release(admitted)
    store.upkeep.close()


def a_task(name: str, *, is_limited: bool) -> TaskFacts:
    return TaskFacts(
        name=name,
        queue="default",
        is_async=False,
        isolate=True,
        retry=Exponential(),
        rate=RateFacts(Rate(5, 1.0), 5.0, None) if is_limited else None,
        places=PlacesFacts(3, None) if is_limited else None,
    )
