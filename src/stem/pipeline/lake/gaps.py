"""Find events that the store pruned before the pipeline read them, and record the gap beside the lake."""

from datetime import UTC, datetime

import msgspec

from stem.contracts.store import Store
from stem.pipeline.lake import storage
from stem.pipeline.lake.lake import Lake
from stem.pipeline.lake.scan import Piece

_FILE = "gaps.json"


class Gap(msgspec.Struct, frozen=True, rename="camel"):
    """Events missing between the last one read and the oldest kept. `events` is None if the store does not count them."""

    events: int | None
    since: datetime
    until: datetime

    def __str__(self) -> str:
        many = "Some events may have been" if self.events is None else f"{self.events:,} events were"
        return (
            f"{many} dropped by the store before the pipeline read them, between {self.since:%Y-%m-%d %H:%M} and "
            f"{self.until:%Y-%m-%d %H:%M} UTC; run it more often, or let retention keep more."
        )


def gap_after(lake: Lake, store: Store, position: str | None) -> Gap | None:
    """The gap after the last event that the lake has read; None if there is none, or the lake has read nothing yet."""
    if position is None:
        return None
    missed = store.history.missed(position)
    oldest = store.events.read(None, limit=1) if missed != 0 else []
    return Gap(missed, _last_read_at(lake), oldest[0].at) if oldest else None


def record_gap(lake: Lake, gap: Gap) -> None:
    """Recording a gap twice is a no-op."""
    known = gaps_of(lake)
    if gap not in known:
        storage.put(_place(lake), msgspec.json.encode([*known, gap]))


def gaps_of(lake: Lake) -> list[Gap]:
    """Oldest first."""
    stored = storage.get(_place(lake))
    return [] if stored is None else msgspec.json.decode(stored, type=list[Gap])


def _place(lake: Lake) -> str:
    return f"{lake.root}/{_FILE}"


def _last_read_at(lake: Lake) -> datetime:
    """The time of the newest event in the lake; of its creation if it has none."""
    import pyarrow.compute as pc

    files = lake.events.files()
    if not files:
        return lake.events.created_at
    day = max(file.date for file in files)
    paths = tuple(file.path for file in files if file.date == day)
    found: datetime = pc.max(Piece(lake.events, paths).read(("at",), None)["at"]).as_py()
    return found.astimezone(UTC)
