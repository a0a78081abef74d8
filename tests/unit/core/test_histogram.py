"""Percentiles of durations that were counted in buckets."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stem.core.histogram import NOTHING, percentile, value
from stem.pipeline.rollups.facts import buckets

durations = st.integers(0, 10**13).map(lambda micros: micros / 1e6)


@given(durations)
def test_a_bucket_stands_for_its_durations_within_a_hundredth(seconds: float) -> None:
    (bucket,) = buckets(np.array([seconds]))
    assert value(int(bucket)) == pytest.approx(seconds, rel=0.01)


@given(st.lists(durations, min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99, 1.0]))
def test_a_percentile_is_within_a_hundredth_of_the_exact_one(seconds: list[float], share: float) -> None:
    exact = np.quantile(seconds, share, method="inverted_cdf")
    counts = Counter(map(int, buckets(np.array(seconds))))
    assert percentile(counts, share) == pytest.approx(exact, rel=0.01)


def test_of_nothing_there_is_no_percentile_and_nothing_takes_no_time() -> None:
    assert percentile({}, 0.5) is None
    assert percentile({NOTHING: 3}, 0.99) == 0.0
