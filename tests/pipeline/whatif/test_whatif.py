"""What the simulator of the autoscaler promises, and that it tells the truth about a real worker."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from stem.cli.pipeline.group import pipeline
from stem.core.decisions.autoscale import Autoscale, changed
from stem.core.errors import ConfigError
from stem.pipeline.html.plots import round_ticks
from stem.pipeline.whatif.grid import Point, chosen, front, grid, untried
from stem.pipeline.whatif.simulate import Model, Prediction, Simulation, Trace, percentile, simulate
from stem.pipeline.whatif.trace import of_attempts, of_file, trace_of
from support.workers.processes import desk, worker_here

CONFIGS = st.builds(
    lambda low, more, **rest: Autoscale(enabled=True, minimum=low, maximum=low + more, **rest),
    low=st.integers(1, 4),
    more=st.integers(0, 8),
    idle_seconds=st.floats(0, 5),
    tick_seconds=st.floats(0.1, 3),
    scale_up_step=st.integers(1, 4),
    scale_down_step=st.integers(1, 4),
    scale_up_cool_down_seconds=st.floats(0, 5),
    scale_down_cool_down_seconds=st.floats(0, 5),
)
TRACES = st.lists(st.tuples(st.floats(0, 3), st.floats(0, 4)), max_size=60).map(
    lambda steps: Trace(
        [sum(gap for gap, _ in steps[: place + 1]) for place in range(len(steps))], [run for _, run in steps]
    )
)


@given(TRACES, CONFIGS)
def test_every_task_is_served_in_its_turn_by_no_more_than_the_maximum(trace: Trace, config: Autoscale) -> None:
    run = Simulation(trace, config, Model())
    run.play()
    assert [task for _, task in run.started] == list(range(len(trace.arrivals)))
    assert all(began >= trace.arrivals[task] for began, task in run.started)
    spans = [(began, began + trace.runs[task]) for began, task in run.started]
    for moment, _ in spans:
        assert sum(began <= moment < end for began, end in spans) <= config.maximum
    assert run.most_isolates <= config.maximum
    busy = sum(trace.runs)
    assert run.isolate_seconds >= busy - 1e-6


@given(TRACES, CONFIGS)
def test_the_same_trace_gives_the_same_prediction(trace: Trace, config: Autoscale) -> None:
    assert simulate(trace, config) == simulate(trace, config)


@given(TRACES, st.integers(1, 6))
def test_without_autoscaling_nothing_waits_while_an_isolate_is_free(trace: Trace, isolates: int) -> None:
    """Against the textbook: each task takes the isolate that is free first."""
    fixed = Autoscale(enabled=True, minimum=isolates, maximum=isolates)
    run = Simulation(trace, fixed, Model(claim_seconds=0.0))
    run.play()
    free = [0.0] * isolates
    for (began, task), arrival, length in zip(run.started, trace.arrivals, trace.runs, strict=True):
        first = min(range(isolates), key=free.__getitem__)
        assert began == max(arrival, free[first]), task
        free[first] = began + length


def test_a_burst_waits_less_the_more_isolates_there_may_be() -> None:
    trace = Trace([0.01 * n for n in range(400)], [0.5] * 400)
    waits = [
        simulate(trace, Autoscale(enabled=True, minimum=1, maximum=most, tick_seconds=0.5)).p95_wait
        for most in (1, 2, 4, 8, 16)
    ]
    assert waits == sorted(waits, reverse=True) and waits[0] > 2 * waits[-1]


def test_an_idle_hour_costs_the_minimum() -> None:
    trace = Trace([0.0, 3600.0], [0.0, 0.0])
    told = simulate(trace, Autoscale(enabled=True, minimum=3, maximum=9))
    assert (round(told.isolate_hours, 2), told.moves) == (3.0, 0)


def test_percentiles_are_values_that_were_seen() -> None:
    assert [percentile([1.0, 2.0, 3.0, 4.0], share) for share in (0.5, 0.95, 0.0)] == [2.0, 4.0, 1.0]
    assert percentile([], 0.5) == 0.0


PREDICTIONS = st.builds(
    Prediction,
    p50_wait=st.just(0.0),
    p95_wait=st.floats(0, 10),
    p99_wait=st.just(0.0),
    mean_wait=st.just(0.0),
    isolate_hours=st.floats(0, 10),
    most_isolates=st.integers(1, 9),
    moves=st.integers(0, 9),
)


@given(st.lists(st.builds(Point, st.just(Autoscale()), PREDICTIONS), min_size=1, max_size=30), st.floats(0, 10))
def test_the_front_is_what_no_point_beats_and_the_choice_keeps_its_word(points: list[Point], wish: float) -> None:
    line = front(points)
    for point in points:
        told = point.prediction
        assert any(
            k.prediction.p95_wait <= told.p95_wait and k.prediction.isolate_hours <= told.isolate_hours + 1e-8
            for k in line
        )
    assert chosen(points, None) in line
    pick = chosen(points, wish).prediction
    good = [point.prediction for point in points if point.prediction.p95_wait <= wish]
    if good:
        assert pick.p95_wait <= wish and pick.isolate_hours <= min(each.isolate_hours for each in good) + 1e-8
    else:
        assert pick.p95_wait == min(point.prediction.p95_wait for point in points)


def test_a_grid_has_every_combination_that_makes_sense() -> None:
    configs = grid(Autoscale(), minimum=[1, 4], maximum=[2, 4], idle_seconds=[10.0, 60.0])
    assert [(c.minimum, c.maximum, c.idle_seconds) for c in configs] == [
        (1, 2, 10.0),
        (1, 2, 60.0),
        (1, 4, 10.0),
        (1, 4, 60.0),
        (4, 4, 10.0),
        (4, 4, 60.0),
    ]
    with pytest.raises(ConfigError, match="In no combination"):
        grid(Autoscale(), minimum=[4], maximum=[2])


def test_a_trace_is_made_of_the_attempts_that_ran(spark: SparkSession) -> None:
    columns = "queue, attempt, enqueued_at, started_at, run_seconds"
    rows = """('q', 0, timestamp'2026-01-01 00:00:10Z', timestamp'2026-01-01 00:00:12Z', 2D),
              ('q', 0, timestamp'2026-01-01 00:00:04Z', timestamp'2026-01-01 00:00:05Z', 1D),
              ('q', 1, timestamp'2026-01-01 00:00:04Z', timestamp'2026-01-01 00:00:20Z', 3D),
              ('q', 0, timestamp'2026-01-01 00:00:05Z', NULL, NULL),
              ('r', 0, timestamp'2026-01-01 00:00:00Z', timestamp'2026-01-01 00:00:00Z', 9D)"""
    attempts = spark.sql(f"SELECT * FROM VALUES {rows} AS t ({columns})")
    assert of_attempts(attempts, queues=("q",)) == Trace([0.0, 6.0, 16.0], [1.0, 2.0, 3.0])
    since = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert of_attempts(attempts, since=since) == Trace([0.0], [2.0])


def test_the_command_predicts_on_spark_what_the_simulator_says_and_gives_the_block_to_paste(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert spark is not None
    trace = Trace([0.2 * n for n in range(300)], [0.5] * 300)
    (tmp_path / "trace.json").write_bytes(msgspec.json.encode(trace))
    words = [
        "whatif",
        "--trace",
        f"{tmp_path}/trace.json",
        "--min",
        "1",
        "--max",
        "2..6:2",
        "--idle",
        "10,60",
        "--json",
    ]
    told = json.loads(
        CliRunner().invoke(pipeline, [*words, "--plot", f"{tmp_path}/p.html"], catch_exceptions=False).stdout
    )
    assert told["attempts"] == 300
    assert [(p["config"]["max"], p["config"]["idleSeconds"]) for p in told["points"]] == [
        (most, idle) for most in (2, 4, 6) for idle in (10.0, 60.0)
    ]
    for point in told["points"]:
        config = changed(Autoscale(), point["config"])
        assert point["told"] == msgspec.to_builtins(simulate(trace, config))
    pasted = yaml.safe_load(told["yaml"])["autoscale"]
    assert changed(Autoscale(), pasted) == changed(Autoscale(), told["chosen"]["config"])
    page = (tmp_path / "p.html").read_text()
    assert page.count("<path") >= 6 and "http" not in page.replace("http-equiv", "")


def point(most_isolates: int = 8, moves: int = 3, **config: Any) -> Point:
    told = Prediction(
        p50_wait=1.0, p95_wait=9.0, p99_wait=9.0, mean_wait=1.0, isolate_hours=1.0, most_isolates=most_isolates, moves=moves
    )  # fmt: skip
    return Point(Autoscale(**{"minimum": 1, "maximum": 8, **config}), told)


def test_advice_was_not_tried_before_and_could_help() -> None:
    narrow, wide, eager = point(maximum=4, most_isolates=4), point(), point(scale_up_step=4, minimum=2)
    assert untried([narrow, wide], wide) == ["--max above 8", "--min above 1", "--step above 2", "--cool-down below 5"]
    assert untried([narrow, wide, eager], wide) == ["--max above 8", "--cool-down below 5"]
    unused = point(most_isolates=3, scale_up_cool_down_seconds=0.0)  # with room left, and no time to gain
    assert untried([narrow, unused, eager], unused) == []
    fixed = point(minimum=8, moves=0)
    assert untried([wide, fixed], fixed) == ["--max above 8"]


@pytest.mark.parametrize(
    ("least", "most", "ticks"),
    [
        (0.137, 0.912, [0.2, 0.4, 0.6, 0.8]),
        (12.3, 61.7, [20, 30, 40, 50, 60]),
        (0.0, 6.0, [0, 1, 2, 3, 4, 5, 6]),
        (0.25, 0.25 + 1e-9, [0.25]),
    ],
)
def test_ticks_are_round(least: float, most: float, ticks: list[float]) -> None:
    assert round_ticks(least, most) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("t.csv", "arrival,seconds\n1,2\n", "cannot be read"),
        ("t.json", "[]", "cannot be read"),
        ("t.txt", "", "no .json, .csv or .parquet"),
    ],
)
def test_a_trace_that_is_none_is_refused_in_one_sentence(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=says):
        of_file(str(tmp_path / name))


def square_wave(seed: int) -> list[tuple[float, float]]:
    """Two bursts with a lull between them: when to send, and how long the task sleeps."""
    dice = Random(seed)
    arrivals = sorted(dice.uniform(begin, begin + 2.5) for begin in (0.0, 6.0) for _ in range(100))
    return [(arrival, dice.uniform(0.02, 0.2)) for arrival in arrivals]


def test_predicted_and_measured_waits_of_a_recorded_run_agree_within_15_percent(tmp_path: Path, namespace: str) -> None:
    runs: list[tuple[float, float]] = []
    # More than once: a machine that does something else delays what is measured, and not what is predicted.
    while len(runs) < 4:
        runs.append(recorded(tmp_path / f"run-{len(runs)}", namespace))
        predicted, measured = runs[-1]
        if measured > 0.3 and abs(predicted - measured) <= 0.15 * measured:
            return
    pytest.fail(f"predicted and measured: {runs}")


def recorded(place: Path, namespace: str) -> tuple[float, float]:
    """The 95th percentile of the waits as predicted, and as a real worker had them."""
    place.mkdir()
    url = f"sqlite:///{place}/stem.db"
    config = Autoscale(
        enabled=True,
        minimum=1,
        maximum=4,
        scale_up_step=1,
        idle_seconds=0.5,
        tick_seconds=0.1,
        scale_up_cool_down_seconds=0.5,
        scale_down_cool_down_seconds=0.3,
    )
    with (
        worker_here(url, namespace, "support.worker_apps.plain:app", concurrency=1, autoscale=config),
        desk(url, namespace) as client,
    ):
        client.call("mark", file=f"{place}/first")
        began_at, ids = time.monotonic(), []
        for arrival, seconds in square_wave(1):
            time.sleep(max(0.0, began_at + arrival - time.monotonic()))  # the workload's own pace
            ids.append(client.send("mark", file=f"{place}/marks", seconds=seconds))
        records = [client.ended(each) for each in ids]
    told = [(r.enqueued_at, r.started_at, r.finished_at) for r in records]
    trace = trace_of(
        (sent.timestamp(), (ended - began).total_seconds()) for sent, began, ended in told if began and ended
    )
    measured = percentile(sorted((began - sent).total_seconds() for sent, began, _ in told if began), 0.95)
    return simulate(trace, config).p95_wait, measured
