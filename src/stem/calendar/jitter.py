"""Spread entries that are due at the same instant."""

from datetime import datetime, timedelta


def jittered(instant: datetime, next_instant: datetime | None, jitter_seconds: float, fraction: float) -> datetime:
    """Return the instant delayed by the fraction (0 to 1, random and the caller's) of the jitter, before the next instant."""
    room = timedelta(seconds=max(0.0, jitter_seconds))
    if next_instant is not None:
        room = min(room, next_instant - instant - timedelta.resolution)
    return instant + max(timedelta(0), room) * min(max(fraction, 0.0), 1.0)
