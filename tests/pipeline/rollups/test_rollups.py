"""What is counted of each minute, and that it comes to the same however it was cut."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stem.pipeline import schemas
from stem.pipeline.attempts import attempts_of
from stem.pipeline.rollups import gold, latency, workers
from stem.pipeline.rollups.workers import capacity
from stem.pipeline.schemas import arrow_schema

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
KINDS = ("succeeded", "retried", "failed", "revoked", "requeued", "enqueued", "started", "throttled", "dead-lettered")

Rows = Sequence[tuple[str, int, int | None, str, str | None]]

some_events = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(0, 240_000_000),  # when, in microseconds after noon
        st.one_of(st.none(), st.integers(0, 200_000_000)),  # how long it ran
        st.sampled_from(("mail.send", "report.make")),
        st.sampled_from((None, "w1", "w2")),
    ),
    max_size=60,
)


def table(rows: Rows) -> pa.Table:
    events = []
    for number, (kind, at, ran, name, worker) in enumerate(rows):
        moment = NOON + timedelta(microseconds=at)
        started = None if ran is None else moment - timedelta(microseconds=ran)
        events.append(
            {
                "offset": str(number), "kind": kind, "at": moment, "task_id": f"t{number}", "name": name,
                "queue": "default", "attempt": number % 2, "worker": worker,
                "enqueued_at": NOON - timedelta(minutes=9), "started_at": started, "data": '{"reason": "why"}',
            }
        )  # fmt: skip
    return pa.Table.from_pylist(events, arrow_schema(schemas.EVENTS))


def counted(events: pa.Table) -> pa.Table:
    return gold.partials(events, attempts_of(events))


def by_key(rows: pa.Table) -> dict[tuple[object, ...], dict[str, object]]:
    plain = rows.to_pylist()
    found = {tuple(row[key] for key in gold.KEYS): row for row in plain}
    assert len(found) == len(plain)
    return found


@given(some_events, st.integers(0, 60))
def test_a_batch_counts_the_same_whole_or_cut_in_two_and_merged(rows: Rows, cut: int) -> None:
    events = table(rows)
    whole = by_key(counted(events))
    parts = by_key(gold.merged(pa.concat_tables([counted(events[:cut]), counted(events[cut:])])))
    assert whole.keys() == parts.keys()
    for key, row in whole.items():
        for name, value in row.items():
            expected = pytest.approx(value) if isinstance(value, float) else value
            if not (isinstance(value, int) or value is None) or parts[key][name] != (value or 0):
                assert parts[key][name] == expected, name


@given(some_events)
def test_counts_and_seconds_are_those_of_the_events(rows: Rows) -> None:
    events = table(rows)
    attempts = attempts_of(events).to_pylist()
    found = counted(events).to_pylist()
    kinds = Counter(row[0].replace("-", "_") for row in rows)
    for kind in KINDS:
        column = kind.replace("-", "_")
        assert sum(row[column] for row in found) == kinds[column]
    ran = [row["run_seconds"] for row in attempts if row["run_seconds"] is not None]
    assert sum(row["run_seconds"] for row in found) == pytest.approx(sum(ran))
    assert sum(row["busy_seconds"] for row in found) == pytest.approx(sum(ran))
    assert sum(n for row in found for _, n in row["run_histogram"]) == len(ran)
    assert max((row["run_most"] or 0 for row in found), default=0) == max(ran, default=0)
    wasted = [row["run_seconds"] or 0 for row in attempts if row["outcome"] != "succeeded"]
    assert sum(row["wasted_seconds"] for row in found) == pytest.approx(sum(wasted))


def test_work_counts_in_the_minutes_in_which_it_was_done() -> None:
    found = by_key(counted(table([("succeeded", 150_000_000, 100_000_000, "mail.send", "w1")])))
    busy = {key[0]: row["busy_seconds"] for key, row in found.items()}
    assert busy == {NOON: 10.0, NOON + timedelta(minutes=1): 60.0, NOON + timedelta(minutes=2): 30.0}


def test_a_start_that_no_clock_could_mean_makes_no_more_rows_than_a_week_has_minutes() -> None:
    assert len(counted(table([("succeeded", 0, 40 * 365 * 86400 * 10**6, "mail.send", "w1")]))) <= 7 * 24 * 60 + 1


def test_percentiles_of_merged_minutes_are_within_two_per_cent_of_the_exact_ones() -> None:
    chance = np.random.default_rng(7)
    micros = (chance.lognormal(13, 1.5, 20_000)).astype(int)
    rows = [("succeeded", n * 10_000, int(ran), "mail.send", "w1") for n, ran in enumerate(micros)]
    merged = gold.merged(counted(table(rows)), ("name",))
    (shown,) = latency.shown(merged).to_pylist()
    for name, share in latency.SHARES.items():
        assert shown[f"run_{name}"] == pytest.approx(np.quantile(micros, share) / 1e6, rel=0.02)


def test_a_workers_capacity_is_what_it_said_between_its_start_and_its_end() -> None:
    def said(worker: str, minutes: float, kind: str, **data: int) -> tuple[str, datetime, str, str]:
        return worker, NOON + timedelta(minutes=minutes), kind, json.dumps(data)

    steps = [
        said("stopped", -10, "worker-started", concurrency=2),
        said("stopped", 1, "worker-scaled", **{"from": 2, "to": 4}),
        said("stopped", 2, "worker-stopped"),
        said("killed", 0, "worker-started", concurrency=1),
    ]
    heard = {"killed": NOON + timedelta(minutes=3)}
    found = capacity(steps, heard, NOON, NOON + timedelta(minutes=60))
    assert found == {"stopped": 2 * 60 + 4 * 60, "killed": 3 * 60}
    assert set(workers.STEPS) >= {step[2] for step in steps}
