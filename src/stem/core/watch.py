"""When leases that have run out may be reclaimed: only after workers have had the chance to renew them."""

import msgspec

LOST_SECONDS = 3600.0  # for so long a store remembers whose leases it has reclaimed


class Watch(msgspec.Struct, frozen=True):
    """When `reclaim` was last called, and since when it has been called without a gap."""

    seen_at: float
    since: float

    def lasts(self, now: float, grace_seconds: float) -> bool:
        return now - self.since >= grace_seconds


def look(before: Watch | None, now: float, grace_seconds: float) -> Watch:
    """A gap longer than the grace says that the store or all workers were away, or that the store's clock was set."""
    if before is None or now - before.seen_at > grace_seconds or before.since > now:
        return Watch(now, now)
    return Watch(now, before.since)
