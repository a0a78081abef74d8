"""A histogram of durations in buckets that grow by 2 %. Percentiles are exact to one bucket, and counts merge by addition."""

import math
from collections.abc import Mapping

GROWTH = 1.02
NOTHING = -1000  # the bucket of durations below a microsecond

_LOG_GROWTH = math.log(GROWTH)


def bucket(seconds: float) -> int:
    """Return the bucket of a duration."""
    return math.ceil(math.log(seconds) / _LOG_GROWTH) if seconds >= 1e-6 else NOTHING


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
