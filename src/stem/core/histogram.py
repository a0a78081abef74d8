"""Durations counted in buckets that grow by two per cent: any percentile within one, and sums of counts merge exactly."""

from collections.abc import Mapping

GROWTH = 1.02
NOTHING = -1000  # the bucket of durations below a microsecond


def value(bucket: int) -> float:
    """The seconds that stand for a bucket: at most 1 % from any duration in it."""
    return 0.0 if bucket <= NOTHING else float(2 * GROWTH**bucket / (1 + GROWTH))


def percentile(counts: Mapping[int, int], share: float) -> float | None:
    """The duration that this share of them does not exceed; None of nothing."""
    wanted = share * sum(counts.values())
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= wanted and seen > 0:
            return value(bucket)
    return None
