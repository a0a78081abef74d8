"""What the store has dropped before the pipeline could read it: found, told, and written down beside the lake."""

from datetime import UTC, datetime

import msgspec

from stem.contracts.store import Store
from stem.pipeline import storage
from stem.pipeline.lake import Lake
from stem.pipeline.scan import Piece

_FILE = "gaps.json"


class Gap(msgspec.Struct, frozen=True, rename="camel"):
    """`events`: None where the store does not count them. Between the last event that was read and the oldest kept."""

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
    """Behind the last event that the lake has read; None also for a lake that has read none yet."""
    if position is None:
        return None
    missed = store.history.missed(position)
    oldest = store.events.read(None, limit=1) if missed != 0 else []
    return Gap(missed, _last_read_at(lake), oldest[0].at) if oldest else None


def noted(lake: Lake, gap: Gap) -> None:
    """Twice is once."""
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
    """When the lake was begun, if retention has left it no event."""
    import pyarrow.compute as pc

    files = lake.events.files()
    if not files:
        return lake.events.created_at
    day = max(file.date for file in files)
    paths = tuple(file.path for file in files if file.date == day)
    found: datetime = pc.max(Piece(lake.events, paths).read(("at",), None)["at"]).as_py()
    return found.astimezone(UTC)
