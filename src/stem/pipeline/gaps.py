"""What the store has dropped before the pipeline could read it: found, told, and written down beside the lake."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from stem.contracts.store import Store
from stem.pipeline.delta import file_system
from stem.pipeline.lake import Lake
from stem.pipeline.scan import Piece

if TYPE_CHECKING:
    import pyarrow.fs as pafs

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


def gap_before(lake: Lake, store: Store, batch: int) -> Gap | None:
    """None also for a batch that the lake has: what it brought may be dropped since."""
    last = lake.events.last_batch(lake.id)
    if last is None or last >= batch:
        return None
    missed = store.history.missed(_end_of(lake, last))
    oldest = store.events.read(None, limit=1) if missed != 0 else []
    return Gap(missed, _last_read_at(lake), oldest[0].at) if oldest else None


def noted(lake: Lake, gap: Gap) -> None:
    """Twice is once."""
    known = gaps_of(lake)
    if gap not in known:
        fs, path = _place(lake)
        with fs.open_output_stream(f"{path}.new") as stream:
            stream.write(msgspec.json.encode([*known, gap]))
        fs.move(f"{path}.new", path)


def gaps_of(lake: Lake) -> list[Gap]:
    """Oldest first."""
    fs, path = _place(lake)
    try:
        with fs.open_input_stream(path) as stream:
            return msgspec.json.decode(stream.read(), type=list[Gap])
    except FileNotFoundError:
        return []


def _place(lake: Lake) -> "tuple[pafs.FileSystem, str]":
    fs, path = file_system(lake.root)
    return fs, f"{path}/{_FILE}"


def _end_of(lake: Lake, batch: int) -> str:
    """As Spark has written it down: a version, a line of its own, an offset a source."""
    fs, path = file_system(lake.checkpoint)
    with fs.open_input_stream(f"{path}/offsets/{batch}") as stream:
        offset: str = json.loads(stream.read().splitlines()[-1])["offset"]
    return offset


def _last_read_at(lake: Lake) -> datetime:
    import pyarrow.compute as pc

    files = lake.events.files()
    day = max(file.date for file in files)
    paths = tuple(file.path for file in files if file.date == day)
    found: datetime = pc.max(Piece(lake.events, paths).read(("at",), None)["at"]).as_py()
    return found.astimezone(UTC)
