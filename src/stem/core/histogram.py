"""A histogram of durations in buckets that grow by 2 %. Percentiles are exact to one bucket, and counts merge by addition."""

from collections.abc import Mapping

GROWTH = 1.02
NOTHING = -1000  # the bucket of durations below a microsecond


def value(bucket: int) -> float:
    """Return the duration of a bucket: at most 1 % from any duration in it."""
    return 0.0 if bucket <= NOTHING else float(2 * GROWTH**bucket / (1 + GROWTH))


def percentile(counts: Mapping[int, int], share: float) -> float | None:
    """Return the duration that this share does not exceed; None without any."""
    wanted = share * sum(counts.values())
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= wanted and seen > 0:
            return value(bucket)
    return None
