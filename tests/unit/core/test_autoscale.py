"""How many isolates a worker should have: examples of the rules, and properties over traces of load."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stem.core.decisions.autoscale import Autoscale, Memory, Move, Snapshot, changed, check, decide, desired
from stem.core.errors import ConfigError

ON = Autoscale(enabled=True, minimum=2, maximum=10)


def seen(**facts: Any) -> Snapshot:
    return Snapshot(**{"queue_depth": 0, "in_flight": 0, "isolates": 2, "prefetch": 0, "now": 100.0, **facts})


def test_a_backlog_raises_by_no_more_than_a_step() -> None:
    move, memory = decide(ON, seen(queue_depth=500), Memory())
    assert move == Move(4, "500 tasks wait for 2 isolates")
    assert memory.last_up_at == 100.0
    assert decide(ON, seen(queue_depth=500, isolates=9), Memory())[0] == Move(10, "500 tasks wait for 9 isolates")
    assert decide(ON, seen(queue_depth=500, isolates=10), Memory())[0] is None


def test_the_target_is_the_minimum_and_one_for_each_share_of_the_backlog() -> None:
    assert [desired(ON, seen(queue_depth=depth)) for depth in (0, 1, 2, 3, 8, 500)] == [2, 3, 3, 4, 6, 10]
    assert desired(ON, seen(queue_depth=500, prefetch=1000)) == 3  # 500 claimed ahead by each isolate
    assert desired(ON, seen(queue_depth=10**400)) == 10


def test_a_backlog_below_the_trigger_raises_nothing() -> None:
    eager = Autoscale(enabled=True, scale_up_trigger=0.25)
    assert decide(ON, seen(queue_depth=3), Memory())[0] is None
    assert decide(ON, seen(queue_depth=4), Memory())[0] is not None
    assert decide(eager, seen(queue_depth=1), Memory())[0] is not None


def test_a_worker_waits_out_the_cool_down_between_two_rises() -> None:
    memory = Memory(last_up_at=100.0)
    assert decide(ON, seen(queue_depth=500, now=104.9), memory)[0] is None
    assert decide(ON, seen(queue_depth=500, now=105.0), memory)[0] is not None


def test_an_idle_worker_shrinks_after_the_idle_period_and_no_sooner() -> None:
    move, memory = decide(ON, seen(isolates=4), Memory())
    assert (move, memory.idle_since) == (None, 100.0)
    assert decide(ON, seen(isolates=4, now=129.9), memory)[0] is None
    move, memory = decide(ON, seen(isolates=4, now=130.0), memory)
    assert move == Move(3, "idle for 30 s")
    assert decide(ON, seen(isolates=3, now=139.9), memory)[0] is None
    assert decide(ON, seen(isolates=3, now=140.0), memory)[0] == Move(2, "idle for 40 s")
    assert decide(ON, seen(isolates=2, now=150.0), memory)[0] is None


def test_work_in_between_starts_the_idle_period_anew() -> None:
    memory = Memory(idle_since=50.0)
    assert decide(ON, seen(isolates=4, queue_depth=1), memory)[1].idle_since is None
    assert decide(ON, seen(isolates=4, in_flight=3), memory)[1].idle_since is None


def test_a_worker_that_runs_anything_does_not_shrink() -> None:
    memory = Memory(idle_since=50.0)
    assert decide(ON, seen(isolates=4, in_flight=1), memory) == (None, Memory())
    assert decide(ON, seen(isolates=4, in_flight=0), memory)[0] == Move(3, "idle for 50 s")


def test_quick_tasks_that_are_claimed_ahead_ask_for_fewer_isolates_and_slow_ones_for_no_more_than_the_multiplier() -> (
    None
):
    assert desired(ON, seen(queue_depth=10, prefetch=20)) == 3  # ten for each of two isolates
    assert desired(ON, seen(queue_depth=10, prefetch=1)) == desired(ON, seen(queue_depth=10, prefetch=0)) == 7


def test_a_step_that_would_pass_the_minimum_ends_at_it() -> None:
    config = Autoscale(enabled=True, scale_down_step=5)
    assert decide(config, seen(isolates=4), Memory(idle_since=0.0))[0] == Move(2, "idle for 100 s")


def test_bounds_that_were_moved_are_kept_at_once_whatever_runs() -> None:
    busy = {"queue_depth": 9, "in_flight": 20}
    assert decide(ON, seen(isolates=20, **busy), Memory(last_down_at=99.9)) == (
        Move(10, "20 isolates are above the maximum of 10"),
        Memory(last_down_at=100.0),
    )
    assert decide(ON, seen(isolates=0), Memory(last_up_at=99.9))[0] == Move(2, "0 isolates are below the minimum of 2")


def test_a_worker_that_does_not_autoscale_stays_as_it_is() -> None:
    assert decide(Autoscale(), seen(isolates=99, queue_depth=10**6), Memory(idle_since=1.0)) == (None, Memory())


@pytest.mark.parametrize(
    "block",
    [
        {"min": 2, "max": 12, "idleSeconds": 45, "tick": "250ms", "backlogPerIsolate": 3},
        {"minConcurrency": 2, "maxConcurrency": 12, "idlePeriod": "45s", "tick": 0.25, "prefetchMultiplier": 3.0},
        {"min_concurrency": 2, "max-concurrency": 12, "idle_seconds": "45", "tick": "0.25s", "backlog_per_isolate": 3},
    ],
)
def test_every_spelling_means_the_same(block: dict[str, Any]) -> None:
    assert changed(Autoscale(), block | {"enabled": True}) == Autoscale(
        enabled=True, minimum=2, maximum=12, idle_seconds=45.0, tick_seconds=0.25, backlog_per_isolate=3.0
    )


def test_the_block_of_the_specification_is_the_default() -> None:
    block = {"enabled": False, "min": 2, "max": 12, "scaleUpStep": 2, "scaleDownStep": 1, "idleSeconds": 30}
    times = {"tick": "2s", "scaleUpCoolDown": "5s", "scaleDownCoolDown": "10s"}
    assert changed(Autoscale(), block | times) == Autoscale()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"min": 13}, "autoscale.min 13 is above autoscale.max 12"),
        ({"min": 0}, "autoscale.min is 0; use a whole number from 1"),
        ({"max": "12"}, "autoscale.max is '12'; use a whole number"),
        ({"max": True}, "autoscale.max is True; use a whole number"),
        ({"tick": 0}, "autoscale.tick is 0; use a number of seconds"),
        ({"tick": "soon"}, "autoscale.tick is 'soon'; use a number of seconds"),
        ({"scaleUpTrigger": float("nan")}, "autoscale.scaleUpTrigger is nan"),
        ({"idleSeconds": -1}, "autoscale.idleSeconds is -1"),
        ({"enabled": "yes"}, "autoscale.enabled is 'yes'; use a switch"),
        ({"maxx": 3}, "autoscale.maxx is not known, and ignored; did you mean autoscale.max?"),
        ({"min": 2, "minConcurrency": 3}, "autoscale.minConcurrency says again"),
        ({"min": 0, "max": 0}, "autoscale.min is 0; use a whole number from 1 to 1,000. autoscale.max is 0"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused_by_its_path(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        changed(Autoscale(), changes)
    assert sentence in str(refusal.value)


def test_settings_made_in_code_obey_the_same_rules() -> None:
    assert check(ON) == ON
    wrongs: list[dict[str, Any]] = [
        {"minimum": 11},
        {"minimum": 0},
        {"tick_seconds": 0.0},
        {"scale_up_trigger": float("inf")},
    ]
    for wrong in wrongs:
        with pytest.raises(ConfigError):
            check(Autoscale(**{"enabled": True, "maximum": 10, **wrong}))


@st.composite
def configs(draw: st.DrawFn) -> Autoscale:
    minimum = draw(st.integers(1, 20))
    return check(
        Autoscale(
            enabled=True,
            minimum=minimum,
            maximum=minimum + draw(st.integers(0, 30)),
            scale_up_step=draw(st.integers(1, 10)),
            scale_down_step=draw(st.integers(1, 10)),
            idle_seconds=draw(st.integers(0, 60)),
            tick_seconds=draw(st.sampled_from([0.25, 1.0, 2.0])),
            scale_up_cool_down_seconds=draw(st.integers(0, 20)),
            scale_down_cool_down_seconds=draw(st.integers(0, 20)),
            scale_up_trigger=draw(st.sampled_from([0.1, 0.5, 1.0, 3.0])),
            backlog_per_isolate=draw(st.sampled_from([0.5, 1.0, 2.0, 10.0])),
        )
    )


depths, prefetches = st.integers(0, 2000), st.sampled_from([0, 4, 100, 1000])


@dataclass(frozen=True)
class Step:
    """One tick of a trace: what was seen, what was decided, what was there after it."""

    snapshot: Snapshot
    move: Move | None

    @property
    def after(self) -> int:
        return self.snapshot.isolates if self.move is None else self.move.target

    @property
    def is_rise(self) -> bool:
        return self.after > self.snapshot.isolates

    @property
    def is_fall(self) -> bool:
        return self.after < self.snapshot.isolates


def trace(config: Autoscale, loads: Sequence[tuple[int, int]], isolates: int, prefetch: int) -> list[Step]:
    """The decisions over a given load: (depth, in flight) at each tick."""
    steps, memory = [], Memory()
    for tick, (depth, in_flight) in enumerate(loads):
        running = min(in_flight, isolates)
        now = tick * config.tick_seconds
        snapshot = Snapshot(queue_depth=depth, in_flight=running, isolates=isolates, prefetch=prefetch, now=now)
        move, memory = decide(config, snapshot, memory)
        steps.append(Step(snapshot, move))
        isolates = steps[-1].after
    return steps


def check_rules(config: Autoscale, steps: list[Step]) -> None:
    """What holds over any trace."""
    for step in steps:
        assert config.minimum <= step.after <= config.maximum
        change = step.after - step.snapshot.isolates
        if config.minimum <= step.snapshot.isolates <= config.maximum:
            assert -config.scale_down_step <= change <= config.scale_up_step
            if step.is_fall:
                assert step.snapshot.queue_depth == 0 and step.snapshot.in_flight <= step.after
    inside = [step for step in steps if config.minimum <= step.snapshot.isolates <= config.maximum]
    for earlier, later in pairwise(step for step in inside if step.is_rise):
        assert later.snapshot.now - earlier.snapshot.now >= config.scale_up_cool_down_seconds
    for earlier, later in pairwise(step for step in inside if step.is_fall):
        assert later.snapshot.now - earlier.snapshot.now >= config.scale_down_cool_down_seconds


@given(configs(), st.lists(st.tuples(depths, st.integers(0, 60)), max_size=80), st.integers(0, 60), prefetches)
def test_bounds_steps_and_cool_downs_hold_over_any_load(
    config: Autoscale, loads: list[tuple[int, int]], isolates: int, prefetch: int
) -> None:
    check_rules(config, trace(config, loads, isolates, prefetch))


@given(
    configs(),
    st.lists(st.tuples(st.integers(1, 25), depths, st.integers(0, 60)), min_size=1, max_size=5),
    prefetches,
)
def test_bounds_hold_over_a_square_wave_and_its_end_brings_the_minimum_back(
    config: Autoscale, waves: list[tuple[int, int, int]], prefetch: int
) -> None:
    loads = [load for length, depth, busy in waves for load in [(depth, busy)] * length + [(0, 0)] * length]
    quiet = ticks_to_minimum(config)
    steps = trace(config, loads + [(0, 0)] * quiet, config.minimum, prefetch)
    check_rules(config, steps)
    assert steps[-1].after == config.minimum


def ticks_to_minimum(config: Autoscale) -> int:
    """The idle period, then a step each time that the cool-down is over; a tick late at the most each time."""
    falls = ceil((config.maximum - config.minimum) / config.scale_down_step)
    waits = ceil(config.idle_seconds / config.tick_seconds) + 1
    return waits + falls * (ceil(config.scale_down_cool_down_seconds / config.tick_seconds) + 1)


@given(configs(), depths, st.integers(0, 60), st.integers(1, 60), prefetches)
def test_a_constant_view_is_answered_in_one_direction_and_then_left_alone(
    config: Autoscale, depth: int, busy: int, isolates: int, prefetch: int
) -> None:
    start = max(config.minimum, min(isolates, config.maximum))
    steps = trace(config, [(depth, busy)] * 400, start, prefetch)
    assert not (any(step.is_rise for step in steps) and any(step.is_fall for step in steps))


@given(configs(), st.integers(0, 60), st.integers(1, 4), prefetches)
def test_a_constant_stream_of_tasks_never_makes_it_oscillate(
    config: Autoscale, arrivals: int, ticks_a_task: int, prefetch: int
) -> None:
    """A closed loop: tasks arrive at every tick, isolates run each for so many ticks, the decision adds isolates."""
    isolates, waiting, memory, running, steps = config.minimum, 0, Memory(), [0] * ticks_a_task, []
    for tick in range(300):
        running = [*running[1:], 0]
        waiting += arrivals
        running[-1] = min(waiting, max(0, isolates - sum(running)))
        waiting -= running[-1]
        now = tick * config.tick_seconds
        view = Snapshot(queue_depth=waiting, in_flight=sum(running), isolates=isolates, prefetch=prefetch, now=now)
        move, memory = decide(config, view, memory)
        steps.append(Step(view, move))
        isolates = steps[-1].after
    check_rules(config, steps)
    assert not any(step.is_fall for step in steps)


@given(configs(), depths, depths, st.integers(0, 60), st.integers(0, 60), prefetches, st.floats(0, 100))
def test_more_waiting_never_means_fewer_isolates(
    config: Autoscale, one: int, other: int, busy: int, isolates: int, prefetch: int, idle_for: float
) -> None:
    memory = Memory(idle_since=1000.0 - idle_for)

    def answer(depth: int) -> int:
        view = Snapshot(queue_depth=depth, in_flight=busy, isolates=isolates, prefetch=prefetch, now=1000.0)
        return Step(view, decide(config, view, memory)[0]).after

    assert answer(min(one, other)) <= answer(max(one, other))
    assert desired(config, seen(queue_depth=min(one, other))) <= desired(config, seen(queue_depth=max(one, other)))
