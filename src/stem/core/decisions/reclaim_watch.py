"""Decides whether expired leases may be reclaimed: only after workers had the chance to renew them."""

import msgspec

LOST_SECONDS = 3600.0  # for so long a store remembers whose leases it has reclaimed


class ReclaimWatch(msgspec.Struct, frozen=True):
    """When `reclaim` was last called, and since when it has been called without a gap."""

    seen_at: float
    since: float

    def has_lasted(self, now: float, grace_seconds: float) -> bool:
        return now - self.since >= grace_seconds


def look(before: ReclaimWatch | None, now: float, grace_seconds: float) -> ReclaimWatch:
    """Note a call of `reclaim`. A gap longer than the grace means that the store or all workers were away."""
    if before is None or now - before.seen_at > grace_seconds or before.since > now:
        return ReclaimWatch(now, now)
    return ReclaimWatch(now, before.since)
